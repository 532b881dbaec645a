// Starts Ghost once, makes its owner and 100 posts through its own API, and stops it.
const { spawn } = require('node:child_process');

const site = 'http://127.0.0.1:2368';
const headers = { 'Content-Type': 'application/json', Origin: process.env.url, 'Accept-Version': 'v5.0' };
const words = 'amber basin cedar delta ember fjord grove haven inlet jetty knoll ledge marsh north ocean'.split(' ');
let state = 1;
const next = (count) => (state = (state * 48271) % 2147483647) % count;
const text = (count) => Array.from({ length: count }, () => words[next(words.length)]).join(' ');

async function call(method, path, body) {
    const answer = await fetch(`${site}/ghost/api/admin${path}`, {
        method, headers, redirect: 'manual', body: body && JSON.stringify(body),
    });
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
    return answer;
}

async function started() {
    for (;;) {
        try {
            return await (await call('GET', '/authentication/setup/')).json();
        } catch {
            await new Promise((done) => setTimeout(done, 500));
        }
    }
}

async function fill() {
    if ((await started()).setup[0].status) return 'filled already';
    const owner = { name: 'Ada', email: 'admin@example.org', password: 'amber-Basin-4711', blogTitle: 'A site' };
    await call('POST', '/authentication/setup/', { setup: [owner] });
    const session = await call('POST', '/session/', { username: owner.email, password: owner.password });
    headers.Cookie = session.headers.get('set-cookie').split(';')[0];
    for (let number = 1; number <= 100; number++) {
        const html = Array.from({ length: 5 }, () => `<p>${text(80)}</p>`).join('');
        const post = { title: `Post ${number}: ${text(4)}`, slug: `post-${number}`, status: 'published', html };
        await call('POST', '/posts/?source=html', { posts: [post] });
    }
    return 'filled';
}

const ghost = spawn('node', ['index.js'], { stdio: ['ignore', 'inherit', 'inherit'] });
ghost.on('exit', (status) => process.exit(process.exitCode ?? status ?? 1));
fill().then(console.log, (error) => { console.error(error); process.exitCode = 1; })
    .finally(() => { process.exitCode ??= 0; ghost.kill('SIGTERM'); });

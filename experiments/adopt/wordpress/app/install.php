<?php
// Installs WordPress as its web form does, and writes 200 posts with five comments each.
define('WP_INSTALLING', true);
$_SERVER['HTTP_HOST'] = 'localhost:8080';
require '/usr/share/wordpress/wp-load.php';
require ABSPATH . 'wp-admin/includes/upgrade.php';
if (is_blog_installed()) {
    exit("installed already\n");
}
wp_install('A site', 'admin', 'admin@example.org', true, '', 'a password');
update_option('permalink_structure', '/%postname%/');
switch_theme('twentytwentythree');
flush_rewrite_rules();
mt_srand(1);
$words = explode(' ', 'amber basin cedar delta ember fjord grove haven inlet jetty knoll ledge marsh north ocean prairie quarry ridge shore tundra');
function text(array $words, int $count): string
{
    return ucfirst(implode(' ', array_map(fn () => $words[mt_rand(0, count($words) - 1)], range(1, $count)))) . '.';
}
for ($number = 1; $number <= 200; $number++) {
    $paragraphs = array_map(fn () => '<p>' . text($words, 80) . '</p>', range(1, 5));
    $post = wp_insert_post([
        'post_title' => "Post $number: " . text($words, 4), 'post_name' => "post-$number", 'post_status' => 'publish',
        'post_content' => implode("\n", $paragraphs), 'post_author' => 1, 'tags_input' => [$words[$number % 20]],
    ]);
    for ($comment = 1; $comment <= 5; $comment++) {
        wp_insert_comment([
            'comment_post_ID' => $post, 'comment_author' => 'Reader ' . mt_rand(1, 50), 'comment_content' => text($words, 30),
            'comment_approved' => 1,
        ]);
    }
}
echo "installed\n";

import http from 'k6/http';

// Options that a person left in: Tailor's rate takes their place.
export const options = { vus: 1, duration: '1s', thresholds: { http_req_failed: ['rate<0.0001'] } };

export function setup() {
  return { path: '/' };
}

export default function (data) {
  http.get(`${__ENV.TAILOR_TARGET}${data.path}`);
}

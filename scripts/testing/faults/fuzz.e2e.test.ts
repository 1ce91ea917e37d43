import { connect } from 'node:net';
import t from 'tap';
import { openChance, scaled } from '#testing/chance.ts';
import { newExamId } from '#testing/clients/attempt-client.ts';
import { crowd, retryOn503, tally } from '#testing/clients/call.ts';
import { doorsOf, started, student } from '#testing/clients/sitting.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { until } from '#testing/until.ts';

const SHOTS = scaled(1_500, 60_000);
const LANES = 24;
const TIMEOUT_MS = 120_000;
/** Memory growth of a front door that is allowed after the warm-up. */
const MAX_GROWTH_BYTES = 200 * 1024 * 1024;

/** Word for a 503 with Retry-After, which is allowed on a loaded machine. */
const BUSY = '503, come again';

const chance = openChance((line) => t.comment(line));
const cluster = await startCluster(t, {
  workers: ['grading', 'essayhandoff', 'resultsrelease'],
  inside: true,
  apart: ['web1'],
  env: { ATTEMPT_GRADING_WAIT_MS: '500', REQUEST_HEAD_TIMEOUT_MS: '2000', REQUEST_BODY_TIMEOUT_MS: '2000' },
  neighbours: false,
});
const door = doorsOf(cluster);
const who = student();
const attemptId = await started(who, door(), { examId: newExamId(), questions: 2, essay: true });
const token = cluster.tokens.internal;

const { data: index } = await cluster.request('GET', '/v1');
const ROUTES: readonly { method: string; path: string }[] = index.routes;

const BODIES: readonly (() => Buffer)[] = [
  () => Buffer.alloc(0),
  () => Buffer.from(Array.from({ length: chance.below(300) }, () => chance.below(256))),
  () => Buffer.from('['.repeat(1 + chance.below(5_000))),
  () => Buffer.from(`${'{"a":'.repeat(80)}1${'}'.repeat(80)}`),
  () => Buffer.from([0x22, 0xff, 0xfe, 0xc0, 0x80, 0x22]),
  () => Buffer.from('{"__proto__":{"admin":true},"questionId":"q1"}'),
  () => Buffer.from('{"questionId":1e400,"answer":null,"clientVersion":-0}'),
  () => Buffer.from(JSON.stringify({ questionId: { $ne: 1 }, answer: { textAnswer: '\u0000$where' } })),
  () =>
    Buffer.from(JSON.stringify({ questionId: 'q1', answer: { textAnswer: `$${'x'.repeat(chance.below(3_000))}` } })),
  () => Buffer.from(JSON.stringify(Array.from({ length: chance.below(200) }, () => chance.next()))),
  () => Buffer.from(`"${'\ud83d\ude00'.repeat(chance.below(2_000))}`),
  () =>
    Buffer.from(
      JSON.stringify({
        type: chance.pick(['QUESTION_VIEW', 'TIMEOUT_', '', '\u202e']),
        metadata: { 'a.b': 1, $c: [] },
      }),
    ),
  () => Buffer.from(JSON.stringify({ exam: { id: attemptId }, access: [], questions: [{}] })),
  () => Buffer.from('null'),
];

const HEADERS: readonly (() => string)[] = [
  () => `X-User-Id: ${chance.pick([who.id, '', ' ', 'a'.repeat(200), 'b,c', '\u00e9'])}`,
  () => `X-User-Role: ${chance.pick(['STUDENT', 'student', 'ADMIN', 'TEACHER', '__proto__'])}`,
  () => 'X-User-Role: STUDENT',
  () => `X-Internal-Token: ${chance.pick([token, 'x', '', 'y'.repeat(4_000)])}`,
  () => `X-Internal-Service: ${chance.pick(['api-gateway', 'exam-service', 'ai-classifier-service', '?'])}`,
  () => 'X-Exam-Runtime-Decision-Source: exam-service',
  () => `Idempotency-Key: ${chance.pick(['k', 'k'.repeat(300), '\u00a0', ''])}`,
  () =>
    `Content-Type: ${chance.pick(['application/json', 'application/json; charset=utf-16', 'text/plain', '*/*', 'application/json;;'])}`,
  () => `Content-Encoding: ${chance.pick(['gzip', 'identity', 'br'])}`,
  () => `X-Request-Id: ${chance.pick(['ok-1', 'a b', '\t', 'z'.repeat(500)])}`,
  () => `Cookie: ${'c'.repeat(chance.pick([10, 20_000]))}`,
  () => `Expect: ${chance.pick(['100-continue', 'teapot'])}`,
  () => `Connection: ${chance.pick(['close', 'keep-alive', 'upgrade'])}`,
  () => 'Upgrade: websocket',
  () => `Accept: ${chance.pick(['text/html', 'application/xml;q=2', ''])}`,
];

const TAILS = ['', '/', '?', '?a[]=1', '?status[$ne]=X', '?%', '?a=1&a=2', '/..', '/%00', '/%2e%2e', '#'];

function shot(): Buffer {
  const route = chance.pick(ROUTES);
  const ids = [attemptId, 'x', '%', '..', '%F0%9F', 'a'.repeat(300), '$where', "'"];
  const path = route.path.replace(/[:{][A-Za-z]+}?/g, () => chance.pick(ids)) + chance.pick(TAILS);
  const usual = chance.below(4) > 0;
  const method = usual
    ? route.method
    : chance.pick(['TRACE', 'OPTIONS', 'HEAD', 'PUT', 'DELETE', 'BREW', 'get', 'CONNECT', 'POST']);
  const body = chance.pick(BODIES)();
  const length = chance.pick([
    () => `Content-Length: ${body.length}`,
    () => `Content-Length: ${body.length}`,
    () => `Content-Length: ${body.length}`,
    () => `Content-Length: ${body.length + chance.below(3)}`,
    () => `Content-Length: ${chance.pick(['-1', 'NaN', '99999999999999999999', '5, 6'])}`,
    () => 'Transfer-Encoding: chunked',
    () => 'X-No-Length: 1',
  ])();
  const headers = Array.from({ length: chance.below(9) }, () => chance.pick(HEADERS)());
  const head = [`${method} ${path} HTTP/${chance.pick(['1.1', '1.1', '1.1', '1.0', '9'])}`, 'Host: localhost', length];
  // Usually a valid identity, so that garbage passes the guards too.
  if (usual) headers.push(`X-User-Id: ${who.id}`, 'X-User-Role: STUDENT', 'Content-Type: application/json');
  return Buffer.concat([Buffer.from(`${[...head, ...headers].join('\r\n')}\r\n\r\n`, 'latin1'), body]);
}

/** Sends the bytes on a new connection. Returns the status of the reply, `nothing` if the connection ended without one, or `no answer`. */
function fire(bytes: Buffer): Promise<string> {
  const port = cluster.door().port;
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    let said = '';
    let word = 'nothing';
    socket.setTimeout(TIMEOUT_MS, () => {
      word = 'no answer';
      socket.destroy();
    });
    socket.on('data', (chunk) => {
      said += chunk.toString('latin1');
      const [, status, head = ''] = /^HTTP\/1\.1 (?!100)(\d{3})(.*?)\r\n\r\n/ms.exec(said) ?? [];
      if (status !== undefined) {
        word = status === '503' && /^retry-after: \d+\r?$/im.test(head) ? BUSY : status;
        socket.destroy();
      }
    });
    socket.on('error', () => undefined);
    socket.on('close', () => resolve(word));
    socket.write(bytes);
    // One in ten hangs up at once, two half-close, the others wait.
    const manner = chance.below(10);
    if (manner === 0) setImmediate(() => socket.destroy());
    else if (manner < 3) socket.end();
  });
}

async function rssOf(): Promise<number> {
  const { text } = await cluster.request('GET', '/metrics');
  return Number(/^process_resident_memory_bytes (\S+)/m.exec(text)?.[1] ?? Number.NaN);
}

t.test('random bytes at any route cause no crash, no 500 and no unbounded growth of a front door', async (t) => {
  const pid = cluster.pid('web1');
  await crowd(SHOTS / 3, LANES, () => fire(shot()));
  const warm = await rssOf();
  t.ok(warm > 0);
  const odd: { sent: string; got: string }[] = [];
  const words = await crowd(SHOTS, LANES, async () => {
    const bytes = shot();
    const got = await fire(bytes);
    if ((/^5/.test(got) && got !== BUSY) || got === 'no answer')
      odd.push({ sent: bytes.toString('latin1').slice(0, 600), got });
    return got;
  });
  t.comment(JSON.stringify(tally(words)));
  t.same(odd.slice(0, 3), [], 'every reply is a client error, a success or a busy front door');
  t.equal(cluster.pid('web1'), pid, 'the front door is the same process');
  t.notMatch(cluster.output('web1'), /uncaught error/);
  const grown = (await rssOf()) - warm;
  t.comment(`grew by ${(grown / 1024 / 1024).toFixed(0)} MiB`);
  t.ok(grown < MAX_GROWTH_BYTES);

  // The random requests may have submitted their attempt, so start another.
  const id = await started(who, door(), { examId: newExamId() });
  const saved = await retryOn503(() => who.save(door(), id, { questionId: 'q1', text: '1' }));
  t.match(saved, { status: 200 }, 'the front door still serves');
  const graded = await until('the attempt is graded', async () => {
    const reply = await retryOn503(() => who.submit(door(), id));
    return reply.status !== 202 && reply;
  });
  t.match(graded, { status: 200, data: { status: 'GRADED', totalScore: 1 } });
});

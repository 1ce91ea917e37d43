import t from 'tap';
import { inScope, type Scope } from '#infra/trace/scope.ts';
import { openLog, scrubber } from './log.ts';

function rig(level: 'info' | 'debug' | 'warn' = 'debug', secrets: string[] = []) {
  const lines: string[] = [];
  return { lines, ...openLog({ level, name: 'test', secrets, destination: { write: (line) => lines.push(line) } }) };
}

t.test('each log message is one line of JSON with time, level and name', async (t) => {
  const { log, lines } = rig();
  log.child({ queue: 'grading' }).warn({ n: 1 }, 'slow');
  t.equal(lines.length, 1);
  t.match(JSON.parse(lines[0] ?? ''), {
    level: 40,
    name: 'test',
    queue: 'grading',
    n: 1,
    msg: 'slow',
    time: /^\d{4}-.*Z$/,
  });
});

t.test('the log redacts secret fields on two levels', async (t) => {
  const { log, lines } = rig();
  log.info(
    {
      token: 'v-1',
      user: { password: 'v-2' },
      headers: { authorization: 'v-3', 'x-internal-token': 'v-4', accept: 'v-5' },
    },
    'm',
  );
  t.notMatch(lines[0], /v-[1-4]/);
  t.match(lines[0], /v-5/);
});

t.test('the log writes message, code, stack and causes of an error, and none of its other properties', async (t) => {
  const { log, lines } = rig('debug', ['configured-secret']);
  const cause = new Error('connect to mongodb://admin:pw12@db with configured-secret');
  const error = Object.assign(new Error('outer', { cause }), { code: 11_000, command: { answers: 'private' } });
  log.error({ err: error }, 'failed');
  const line = JSON.parse(lines[0] ?? '');
  t.match(line.err, {
    type: 'Error',
    code: 11_000,
    message: /outer: connect to/,
    stack: /log\.test[\s\S]*caused by: Error: connect to/,
  });
  t.notMatch(lines[0], /pw12|configured-secret|private/);
  const refused = Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:1'), { code: 'ECONNREFUSED' });
  log.error({ err: new TypeError('fetch failed', { cause: refused }) }, 'failed');
  t.match(JSON.parse(lines.pop() ?? '').err, {
    type: 'TypeError',
    code: 'ECONNREFUSED',
    message: 'fetch failed: connect ECONNREFUSED 127.0.0.1:1',
  });
  log.error({ err: 'text' }, 'failed');
  log.error({ err: undefined }, 'failed');
  t.equal(lines.length, 3);
});

t.test(
  'request lines contain the route, status, duration, a hash of the actor and the ids of the request',
  async (t) => {
    const line = {
      attemptId: undefined,
      commandId: undefined,
      method: 'GET',
      route: '/v1/:id',
      status: 200,
      ms: 1.234,
      actor: 'hash-of-actor',
      role: undefined,
      objectIds: undefined,
    };
    const { access, lines } = rig();
    access(line);
    access({ ...line, actor: undefined });
    const [first, second] = lines.map((text) => JSON.parse(text));
    t.strictSame(
      { ...first, time: '' },
      {
        level: 30,
        time: '',
        name: 'test',
        method: 'GET',
        route: '/v1/:id',
        status: 200,
        ms: 1.23,
        actor: 'hash-of-actor',
        msg: 'request',
      },
    );
    t.match(first.time, /^\d{4}-.*Z$/);
    t.notOk('actor' in second);
    const ids = { attemptId: 'a-1', commandId: 'c-1', role: 'ADMIN', objectIds: { attemptId: 'a-1' } };
    const cause = { requestId: 'r-1', traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01' };
    inScope({ cause, clientRequestId: 'chosen-1' }, access, { ...line, ...ids });
    const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
    t.match(JSON.parse(lines[2] ?? ''), { ...ids, requestId: 'r-1', clientRequestId: 'chosen-1', traceId });
    const quiet = rig('warn');
    quiet.access(line);
    t.equal(quiet.lines.length, 0);
  },
);

t.test('each line of a request or a run contains the ids by which it is found', async (t) => {
  const { log, lines } = rig();
  const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
  const scope: Scope = {
    cause: { requestId: 'r-1', traceparent },
    clientRequestId: 'chosen-1',
    command: { _id: 'c-1', queue: 'grading' },
  };
  await inScope(scope, async () => {
    await Promise.resolve();
    log.warn({ commandId: 'other' }, 'inside');
  });
  log.warn({}, 'outside');
  const [inside, outside] = lines.map((text) => JSON.parse(text));
  const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
  const ids = { queue: 'grading', requestId: 'r-1', clientRequestId: 'chosen-1', traceId };
  t.match(inside, { ...ids, commandId: 'other' }, 'a field of the line itself has precedence');
  t.equal(lines[0]?.match(/"commandId"/g)?.length, 1);
  t.notOk('requestId' in outside);
});

t.test('the scrubber replaces configured secrets, bearer tokens, JWTs and credentials in URLs', async (t) => {
  const scrub = scrubber(['s3cret"quoted', 'short', undefined]);
  t.equal(scrub(JSON.stringify({ a: 's3cret"quoted' })), '{"a":"[redacted]"}');
  t.equal(scrub('short stays'), 'short stays');
  t.equal(scrub('Authorization: Bearer abcdefgh.ijk'), 'Authorization: Bearer [redacted]');
  t.equal(scrub('redis://:pass@host:1 http://host/path'), 'redis://[redacted]@host:1 http://host/path');
  t.equal(scrub('eyJhbGciOiJIUzI1.eyJzdWIiOiIx.c2ln'), '[redacted]');
});

import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import { exchange, type HttpReply, NoReply } from '#testing/clients/call.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { until } from '#testing/until.ts';

const NAMES = [
  'GATEWAY_TOKEN',
  'INTERNAL_SERVICE_TOKEN',
  'ATTEMPT_INTERNAL_SERVICE_TOKEN',
  'NOTIFICATION_INTERNAL_SERVICE_TOKEN',
  'NOTIFICATION_TOKEN_EXAM_SERVICE',
  'OPS_TOKEN',
  'OPS_READ_TOKEN',
] as const;
type Name = (typeof NAMES)[number];
type Age = 'old' | 'new';
const tokenOf = (name: Name, age: Age) => `the-${age}-value-of-${name.toLowerCase()}`;

/** Pause of a caller between two calls. */
const PAUSE_MS = 20;

/** Calls that succeed, or fail for their wrong body, once their token is accepted. */
const CALLS: Record<Name, { method: string; path: string; headers: (token: string) => Record<string, string> }> = {
  GATEWAY_TOKEN: {
    method: 'GET',
    path: '/v1/student/attempts',
    headers: (token) => ({ 'x-gateway-token': token, 'x-user-id': 's', 'x-user-role': 'STUDENT' }),
  },
  INTERNAL_SERVICE_TOKEN: service('GET', '/v1/ai/providers/status', 'admin-service'),
  ATTEMPT_INTERNAL_SERVICE_TOKEN: service('POST', '/v1/events/exam-results-released', 'exam-service'),
  NOTIFICATION_INTERNAL_SERVICE_TOKEN: service('POST', '/v1/events/notification', 'classroom-service'),
  NOTIFICATION_TOKEN_EXAM_SERVICE: service('POST', '/v1/events/notification', 'exam-service'),
  OPS_TOKEN: {
    method: 'GET',
    path: '/v1/ops/dead-letters',
    headers: (token) => ({ authorization: `Bearer ${token}` }),
  },
  OPS_READ_TOKEN: { method: 'GET', path: '/metrics', headers: (token) => ({ authorization: `Bearer ${token}` }) },
};

function service(method: string, path: string, sender: string) {
  return {
    method,
    path,
    headers: (token: string) => ({ 'x-internal-service': sender, 'x-internal-token': token }),
  };
}

const folder = t.testdir({});
const file = (variable: string) => path.join(folder, variable);
const variables = NAMES.flatMap((name) => [name, `${name}_PREVIOUS`]);

/** Writes the files of the secrets, which a process reads at its next start. */
function store(current: Age, previous: Age | undefined): void {
  for (const name of NAMES) {
    writeFileSync(file(name), `${tokenOf(name, current)}\n`);
    writeFileSync(file(`${name}_PREVIOUS`), previous === undefined ? '' : `${tokenOf(name, previous)}\n`);
  }
}

store('old', undefined);
const cluster = await startCluster(t, {
  inside: true,
  doors: 2,
  workers: [],
  neighbours: false,
  env: {
    NODE_ENV: 'production',
    HOST: '127.0.0.1',
    TRUSTED_PROXIES: 'none',
    ...Object.fromEntries(NAMES.map((name) => [name, undefined])),
    ...Object.fromEntries(variables.map((name) => [`${name}_FILE`, file(name)])),
  },
});

/** Sends one call; undefined if the door was stopping, so that the caller has to send it again. */
async function send(door: number, name: Name, age: Age): Promise<HttpReply | undefined> {
  const { method, path, headers } = CALLS[name];
  try {
    const body = method === 'POST' ? { type: 1 } : undefined;
    return await exchange(`${cluster.door(door).url}${path}`, { method, headers: headers(tokenOf(name, age)), body });
  } catch (error) {
    if (error instanceof NoReply) return undefined;
    throw error;
  }
}

t.test('tokens are replaced under load, and no call is refused', async (t) => {
  let sent: readonly Age[] = ['old'];
  let isOver = false;
  const served = [0, 0, 0];
  const wrong: string[] = [];
  async function call(door: number, name: Name): Promise<void> {
    for (let turn = 0; !isOver; turn++) {
      const age = sent[turn % sent.length] ?? 'old';
      const reply = await send(door, name, age);
      // The pause leaves the processor to the door that starts.
      await delay(PAUSE_MS);
      if (reply === undefined || reply.status === 503) continue;
      if (reply.status === 200 || reply.status === 400) served[door] = (served[door] ?? 0) + 1;
      else wrong.push(`${name} ${age} ${reply.status} ${reply.code}`);
    }
  }
  const callers = [1, 2].flatMap((door) => NAMES.map((name) => call(door, name)));

  /** Restarts one door after the other while both are called, then waits for calls at both. */
  async function deploy(current: Age, previous: Age | undefined): Promise<void> {
    store(current, previous);
    for (const door of ['web1', 'web2']) await cluster.restart(door);
    await underLoad();
  }
  async function underLoad(): Promise<void> {
    const [, one = 0, two = 0] = [...served];
    await until('both doors are called', () => (served[1] ?? 0) > one + 50 && (served[2] ?? 0) > two + 50);
  }

  try {
    await underLoad();
    await deploy('old', 'new');
    sent = ['old', 'new'];
    await underLoad();
    await deploy('new', 'old');
    sent = ['new'];
    await underLoad();
    await deploy('new', undefined);
  } finally {
    isOver = true;
    await Promise.all(callers);
  }
  t.strictSame(wrong, []);
  for (const name of NAMES) t.equal((await send(1, name, 'old'))?.status, 401, `${name}: the old value is over`);
  t.notMatch(cluster.output(), /-value-of-/, 'no log holds a token');
});

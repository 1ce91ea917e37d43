import { randomUUID } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import t from 'tap';
import { SECOND } from '#shared/kernel/time.ts';
import { newExamId } from '#testing/clients/attempt-client.ts';
import { newEmail, PASSWORD } from '#testing/clients/auth-client.ts';
import { crowd, exchange, tally } from '#testing/clients/call.ts';
import { release, started, student } from '#testing/clients/sitting.ts';
import { startCluster } from '#testing/processes/cluster.ts';
import { until } from '#testing/until.ts';

/** Requests whose body never comes, as an attacker sends them. */
interface HalfSent {
  /** Number of requests whose head has passed and whose body the door is waiting for. */
  standing(): number;
  /** Number of replies with this status. */
  replies(status: number): number;
  /** Closes all connections. */
  end(): void;
}

interface HalfSentPlan {
  port: number;
  count: number;
  /** Path of the route. */
  path?: string;
  /** Address in X-Forwarded-For; by default the header is absent. */
  address?: (index: number) => string;
  /** Length of the body that the head announces. */
  length?: number;
  /** Opens so many connections a second and waits for no reply; by default opens all at once and waits for the door's reply to each. */
  perSecond?: number;
}

/** Connections that are opened at once if they are opened at a rate. */
const GROUP = 20;
/** Pause before a connection that has ended is opened again (ms). */
const AGAIN_MS = 100;

/**
 * Opens `count` connections that announce a body and send none of it. A connection that ends is opened again until `end`, so that the
 * requests stand although the door ends slow bodies. Resolves once all have been opened.
 */
async function openHalfSent(plan: HalfSentPlan): Promise<HalfSent> {
  const { port, count, path = '/v1/auth/login', address, length = 262_144, perSecond } = plan;
  const expect = perSecond === undefined ? 'Expect: 100-continue\r\n' : '';
  const sockets = new Set<Socket>();
  const waiting = new Set<Socket>();
  const statuses = new Map<number, number>();
  let isOver = false;

  /** Opens one connection. `answered` is called with the first status line that the door sends on it. */
  function open(index: number, answered: () => void): void {
    const from = address === undefined ? '' : `X-Forwarded-For: ${address(index)}\r\n`;
    const socket = connect({ port, host: '127.0.0.1' });
    sockets.add(socket);
    socket.on('error', () => undefined);
    // The door answers 100 once the head has passed, which shows that it is waiting for the body.
    socket.write(
      `POST ${path} HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n${from}` +
        `Content-Length: ${length}\r\n${expect}\r\n`,
    );
    socket.on('data', (chunk: Buffer) => {
      const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(chunk.toString('latin1'))?.[1] ?? 0);
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      if (status === 100) waiting.add(socket);
      else socket.destroy();
      answered();
    });
    socket.once('close', () => {
      sockets.delete(socket);
      waiting.delete(socket);
      answered();
      if (!isOver) setTimeout(() => isOver || open(index, () => undefined), AGAIN_MS).unref();
    });
  }

  if (perSecond === undefined) {
    await Promise.all(
      Array.from({ length: count }, (_, index) => new Promise<void>((resolve) => open(index, resolve))),
    );
  } else {
    for (let index = 0; index < count; index += 1) {
      open(index, () => undefined);
      if (index % GROUP === 0) await delay((GROUP * SECOND) / perSecond);
    }
  }
  return {
    standing: () => waiting.size,
    replies: (status) => statuses.get(status) ?? 0,
    end() {
      isOver = true;
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** Addresses that loopback, as the only trusted proxy, forwards. */
const [attacker, school, home] = ['203.0.113.66', '198.51.100.7', '192.0.2.20'];
const PEOPLE = 5;

// web1 has the default limits. At web2 an address may have 64 requests in flight. Hashes are expensive enough to queue.
const cluster = await startCluster(t, {
  doors: 2,
  inside: true,
  apart: ['web1', 'web2'],
  env: { TRUSTED_PROXIES: '127.0.0.1', AUTH_BCRYPT_COST: '10' },
  envOf: { web2: { MAX_CONNECTIONS: '1024' } },
  neighbours: false,
});

/** Calls of the auth service through one front door, from one address. */
function callsFrom(address: string, door = 1) {
  const post = (path: string, body: object) =>
    exchange<{ refreshToken: string }>(`${cluster.door(door).url}/v1/auth/${path}`, {
      method: 'POST',
      headers: { 'x-forwarded-for': address },
      body,
    });
  return {
    register: (email = newEmail()) => post('register', { email, password: PASSWORD, fullName: 'Nguyễn Văn An' }),
    login: (email: string, password = PASSWORD) => post('login', { email, password }),
    refresh: (refreshToken: string) => post('refresh', { refreshToken }),
  };
}

/** Returns the statuses of a save, a submit and a release of each of some students, whose attempts are open already. */
async function examsAt(door: string, sittings: { who: ReturnType<typeof student>; id: string; examId: string }[]) {
  const statuses = await crowd(sittings.length, PEOPLE, async (n) => {
    const { who, id, examId } = sittings[n] ?? { who: student(), id: '', examId: '' };
    const saved = await who.save(door, id, { questionId: 'q1', text: '1' });
    const submitted = await who.submit(door, id);
    const released = await release(door, examId, randomUUID());
    return [saved, submitted, released].map(({ status }) => (status < 300 ? 'done' : status)).join(' ');
  });
  return tally(statuses);
}

/** Sends requests over each of some connections until `end` is called, which returns how often each status came. */
function flood(connections: number, send: (nth: number) => Promise<{ status: number }>) {
  let isOver = false;
  let sent = 0;
  const seen: number[] = [];
  const all = crowd(connections, connections, async () => {
    while (!isOver) seen.push((await send(sent++)).status);
  });
  return {
    seen,
    async end() {
      isOver = true;
      await all;
      return tally(seen);
    },
  };
}

const EXAM = 'done done done';

async function openSittings(door: string) {
  return crowd(PEOPLE, PEOPLE, async () => {
    const [who, examId] = [student(), newExamId()];
    return { who, examId, id: await started(who, door, { examId }) };
  });
}

t.test('1,030 half-sent logins stop neither exams nor sessions, not even behind their own address', async (t) => {
  const { url: door, port } = cluster.door(1);
  const sittings = await openSittings(door);
  const account = await callsFrom(attacker).register();
  const halfSent = await openHalfSent({ port, count: 1_030, address: () => attacker });
  t.teardown(halfSent.end);
  t.equal(halfSent.standing(), 1_030);
  t.same(await examsAt(door, sittings), { [EXAM]: PEOPLE });
  for (const from of [attacker, school]) {
    t.match(await callsFrom(from).register(), { status: 201 }, `a registration of ${from}`);
  }
  t.match(await callsFrom(attacker).refresh(account.data.refreshToken), { status: 200 });
});

t.test('half-sent logins of one address use up its share, and no other', async (t) => {
  const { url: door, port } = cluster.door(2);
  const sittings = await openSittings(door);
  const email = newEmail();
  await callsFrom(school, 2).register(email);
  const halfSent = await openHalfSent({ port, count: 80, address: () => attacker });
  t.teardown(halfSent.end);
  t.same([halfSent.standing(), halfSent.replies(503)], [64, 16]);
  t.match(await callsFrom(attacker, 2).login(email), {
    status: 503,
    code: 'UNAVAILABLE',
    headers: { 'retry-after': '1' },
  });
  t.match(await callsFrom(school, 2).login(email), { status: 200 });
  t.match(await callsFrom(home, 2).register(), { status: 201 });
  t.same(await examsAt(door, sittings), { [EXAM]: PEOPLE });
});

t.test('logins with invented e-mails from 90 clients refuse neither known pairs nor registrations', async (t) => {
  const { url: door } = cluster.door(1);
  const sittings = await openSittings(door);
  const email = newEmail();
  await callsFrom(school).register(email);
  for (const from of [attacker, school]) {
    t.match(await callsFrom(from).login(email), { status: 200 }, `the account and ${from} become a known pair`);
  }
  const attack = flood(90, () => callsFrom(attacker).login(newEmail(), 'wrong password'));
  await until('the hash queue refuses strangers', () => attack.seen.includes(503));
  for (let round = 0; round < 3; round += 1) {
    for (const from of [attacker, school]) t.match(await callsFrom(from).login(email), { status: 200 }, from);
    t.match(await callsFrom(home).register(), { status: 201 });
  }
  t.same(await examsAt(door, sittings), { [EXAM]: PEOPLE });
  t.comment('the attack:', JSON.stringify(await attack.end()));
});

// Before: 60 networks closed the queue, and 8 of 8 pupils with the right password got 503.
t.test('logins from 65,536 networks of one customer refuse no pupil on a new network', async (t) => {
  const pupils = await crowd(8, 4, async () => {
    const email = newEmail();
    t.match(await callsFrom(school).register(email), { status: 201 });
    return email;
  });
  const subnet = (nth: number) => ((nth * 7_919) % 65_536).toString(16);
  const attack = flood(70, (nth) => callsFrom(`2001:db8:a:${subnet(nth)}::1`).login(newEmail(), 'wrong password'));
  await until('strangers wait', async () => {
    const metrics = await (await fetch(`${cluster.door(1).url}/metrics`)).text();
    return Number(/^examhall_password_hashes_waiting\{kind="stranger"\} (\d+)$/m.exec(metrics)?.[1]) > 50;
  });
  const replies = await crowd(pupils.length, pupils.length, (n) => callsFrom(`192.0.${n}.20`).login(pupils[n] ?? ''));
  t.same(tally(replies.map(({ status }) => status)), { 200: pupils.length });
  t.comment('the attack:', JSON.stringify(await attack.end()));
});

// Before: all registrations waited in one line, and 10 of 10 from other addresses got 503.
t.test('ninety connections that register from one address refuse no other address', async (t) => {
  const attack = flood(90, () => callsFrom(attacker).register());
  await until('the hash queue refuses registrations', () => attack.seen.includes(503));
  const replies = await crowd(10, 10, (n) => callsFrom(`192.0.${n}.30`).register());
  t.same(tally(replies.map(({ status }) => status)), { 201: 10 });
  t.comment('the attack:', JSON.stringify(await attack.end()));
});

t.test('connections that send nothing keep no client out', async (t) => {
  const { url: door, port } = cluster.door(2);
  const sittings = await openSittings(door);
  const silent = new Set<Socket>();
  const close = () => silent.forEach((socket) => void socket.destroy());
  t.teardown(close);
  const connected = Array.from({ length: 1_500 }, () => {
    const socket = connect({ port, host: '127.0.0.1' }).on('error', () => undefined);
    silent.add(socket.once('close', () => silent.delete(socket)));
    return new Promise((resolve) => socket.once('connect', resolve).once('close', resolve));
  });
  await Promise.all(connected);
  t.same(await examsAt(door, sittings), { [EXAM]: PEOPLE });
  t.match(await callsFrom(home, 2).register(), { status: 201 });
  // fetch has no connection of an earlier call. Some of the flood may end otherwise: dropped in a burst, or by the time limit of the head.
  await until('the flood has made room', async () => {
    const metrics = await (await fetch(`${door}/metrics`)).text();
    const dropped = /^examhall_connections_dropped_total\{reason="silent"\} (\d+)$/m.exec(metrics)?.[1];
    return Number(dropped) > 0;
  });
  close();
});

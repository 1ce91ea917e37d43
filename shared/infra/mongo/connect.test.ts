import { EventEmitter } from 'node:events';
import { mock } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { MongoNetworkError } from 'mongodb';
// @ts-expect-error The driver has types for its public interface alone.
import { Connection } from 'mongodb/lib/cmap/connection.js';
import t, { type Test } from 'tap';
import { type Mongo, openMongo, openReleaseMongo, unreadableIn, weaknessOf } from './connect.ts';
import { isOutage } from './faults.ts';
import { openServerClock } from './server-clock.ts';
import { untilUsable } from './until-usable.ts';

const PLACE = { url: 'mongodb://127.0.0.1:1/?readPreference=secondaryPreferred', database: 'd', appName: 'a' };

t.test('MongoDB reads come from the primary, whatever the connection string requests', async (t) => {
  for (const open of [openMongo, openReleaseMongo]) {
    const { client, db } = open(PLACE);
    t.equal(client.readPreference.mode, 'primary');
    t.equal(db.collection('attempts').readPreference?.mode, 'primary');
    t.match(db.collection('attempts').readConcern, { level: 'majority' });
  }
});

t.test('only the MongoDB client of a release has no socket timeout', async (t) => {
  t.equal(openReleaseMongo(PLACE).client.options.socketTimeoutMS, 0);
  t.ok(openMongo(PLACE).client.options.socketTimeoutMS > 0);
});

t.test('accepts connection strings that the driver accepts', async (t) => {
  for (const url of [
    'mongodb://a,b:27018/school?replicaSet=rs0',
    'mongodb://root:p%40ss%2Fword@db/?w=majority',
    'mongodb+srv://u:p@cluster.example/examhall',
  ]) {
    t.equal(unreadableIn(url), undefined, url);
  }
});

t.test('reports why a connection string is invalid', async (t) => {
  t.equal(unreadableIn('mongodb://db/?retryWrite=true'), 'option retrywrite is not supported');
  t.match(unreadableIn('mongodb://root:hunter2@db:99999/'), /db:99999/);
  t.match(unreadableIn('mongodb+srv://db:27017/'), /port/);
  t.match(unreadableIn('mongodb://db/ex.am'), /Database names/);
});

t.test('reports an unescaped password in a connection string without quoting any part of it', async (t) => {
  for (const password of [
    'hunt@er2',
    'hunt/er2',
    'hunt?er2',
    'hunt#er2',
    'hunt:er2',
    'hunt%er2',
    '12/hunter2',
    'a@b?hunter2',
  ]) {
    const told = unreadableIn(`mongodb://root:${password}@db/school`);
    t.match(told, /percent-encoded/, password);
    t.notMatch(told, /hunt|er2/, password);
  }
  const told = unreadableIn('mongodb://db/?tlsCertificateKeyFilePassword=hunter2&hunter3=1');
  t.match(told, /cannot be read/);
  t.notMatch(told, /hunter/);
});

const at = (query: string) => weaknessOf(`mongodb://user:pa%3Fss@a,b/db${query}`);

t.test('a connection string may not weaken the write concern', async (t) => {
  for (const query of ['', '?', '?replicaSet=rs0', '?w=majority', '?journal=true&w=majority', '?W=Majority&j=true']) {
    t.equal(at(query), undefined, query);
  }
  for (const query of [
    '?w=1',
    '?w=0&w=majority',
    '?x=1&W=2',
    '?journal=false',
    '?j=false',
    '?%77=1',
    '?w=',
    '?safe=false',
  ]) {
    t.type(at(query), 'string', query);
  }
});

t.test('a connection string may not weaken majority reads of the primary', async (t) => {
  for (const query of ['?readPreference=primary', '?readpreference=Primary&readConcernLevel=majority']) {
    t.equal(at(query), undefined, query);
  }
  for (const mode of ['primaryPreferred', 'secondary', 'secondaryPreferred', 'nearest', '']) {
    t.equal(at(`?replicaSet=rs0&readPreference=${mode}`), 'readPreference is not primary', mode);
  }
  t.equal(at('?readConcernLevel=local'), 'readConcernLevel is not majority');
  t.equal(at('?readPreferenceTags=dc:east'), 'readPreferenceTags is set');
  t.equal(at('?maxStalenessSeconds=120'), 'maxStalenessSeconds is set');
});

/** Returns a check that fails with these reasons, one per call, and then succeeds. */
function fakeCheck(...reasons: string[]) {
  const said: unknown[] = [];
  const stop = new AbortController();
  let tries = 0;
  const check = async (): Promise<void> => {
    tries += 1;
    const reason = reasons.shift();
    if (reason === 'stop') stop.abort();
    if (reason !== undefined) throw new Error(reason);
  };
  const log = { warn: ({ reason }: { reason?: unknown }) => said.push(reason) } as never;
  return { said, stop, tries: () => tries, deps: { check, log, stop: stop.signal, retryMs: 1 } };
}

t.test('the wait for a usable database repeats its check and logs each new reason once', async (t) => {
  const { deps, said, tries } = fakeCheck('away', 'old', 'old', 'no clock');
  t.equal(await untilUsable(deps), true);
  t.strictSame(said, ['away', 'old', 'no clock']);
  t.equal(tries(), 5);
});

t.test('a stop ends the wait for a usable database at any point', async (t) => {
  const [told, during, late] = [fakeCheck('away'), fakeCheck('away', 'stop', 'away'), fakeCheck()];
  told.stop.abort();
  t.equal(await untilUsable(told.deps), false);
  t.equal(told.tries(), 0);
  t.equal(await untilUsable(during.deps), false);
  t.equal(during.tries(), 2);
  const usableTooLate = { ...late.deps, check: async () => late.stop.abort() };
  t.equal(await untilUsable(usableTooLate), false, 'a process that must stop starts nothing');
  const asleep = fakeCheck('away');
  const waiting = untilUsable({ ...asleep.deps, retryMs: 3_600_000 });
  setImmediate(() => asleep.stop.abort());
  t.equal(await waiting, false);
});

/**
 * Returns a server whose clock is ahead by `aheadMs` and whose replies arrive `wayBackMs` late. The clocks of this process advance by
 * these delays only, so that a pause of the machine changes no measurement.
 */
function fakeServer(t: Test) {
  const server = { aheadMs: 0, wayBackMs: 0, asked: 0 };
  const began = { clock: performance.now(), wall: Date.now() };
  let passed = 0;
  const clocks = [
    mock.method(performance, 'now', () => began.clock + passed),
    mock.method(Date, 'now', () => began.wall + passed),
  ];
  t.teardown(() => {
    for (const clock of clocks) clock.mock.restore();
  });
  const command = async () => {
    server.asked += 1;
    const localTime = new Date(Date.now() + server.aheadMs);
    passed += server.wayBackMs;
    return { localTime };
  };
  return { server, mongo: { db: { admin: () => ({ command }) } } as unknown as Mongo };
}

t.test('the server clock returns the time of the server, not of the process', async (t) => {
  const { mongo, server } = fakeServer(t);
  const clock = openServerClock(mongo);
  t.teardown(clock.stop);
  server.aheadMs = 3_600_000;
  await clock.measure();
  t.equal(clock.now() - Date.now(), 3_600_000);
});

t.test('a slow reply does not change an offset measured by a quick one', async (t) => {
  const { mongo, server } = fakeServer(t);
  const clock = openServerClock(mongo);
  t.teardown(clock.stop);
  await clock.measure();
  // The whole delay is on the way back. If the reply were accepted, the clock would be wrong by half of the delay.
  server.wayBackMs = 400;
  await clock.measure();
  t.equal(clock.now() - Date.now(), 0);
});

t.test('the server clock accepts a slow reply if it has no better one, and measures again', async (t) => {
  const { mongo, server } = fakeServer(t);
  const clock = openServerClock(mongo);
  t.teardown(clock.stop);
  server.wayBackMs = 60;
  server.aheadMs = -500_000;
  await clock.measure();
  t.equal(server.asked, 4);
  t.equal(clock.now() - Date.now() + 500_000, -30, 'wrong by half a round trip');
});

t.test('the server clock follows a server whose clock was set, even if its reply is slow', async (t) => {
  const { mongo, server } = fakeServer(t);
  const clock = openServerClock(mongo);
  t.teardown(clock.stop);
  await clock.measure();
  server.aheadMs = -3_600_000;
  server.wayBackMs = 50;
  await clock.measure();
  t.equal(clock.now() - Date.now() + 3_600_000, -25, 'wrong by half a round trip');
});

/** Writes a command on a connection of the driver whose socket is full. Returns the connection's socket, and the end of the write. */
function writeOnFullSocket(): { socket: EventEmitter; written: Promise<void> } {
  const socket = Object.assign(new EventEmitter(), { write: () => false });
  const connection = Object.create(Connection.prototype, { socket: { value: socket } });
  const command = { toBin: async () => [Buffer.from('a command')] };
  return { socket, written: connection.writeCommand(command, { agreedCompressor: 'none' }) };
}

t.test('a command whose socket closes before it is written fails as an outage', async (t) => {
  const { socket, written } = writeOnFullSocket();
  setImmediate(() => socket.emit('close'));
  const error = await Promise.race([written.catch((thrown: unknown) => thrown), delay(5_000, null, { ref: false })]);
  t.ok(error instanceof MongoNetworkError && isOutage(error));
});

t.test('a command that waits for its socket is written once the socket drains', async (t) => {
  const { socket, written } = writeOnFullSocket();
  setImmediate(() => socket.emit('drain'));
  await t.resolves(written);
  t.strictSame(socket.eventNames(), [], 'no listener is left');
});

import pLimit from 'p-limit';
import t from 'tap';
import { type Mongo, openMongo } from '#infra/mongo/connect.ts';
import { isOutage } from '#infra/mongo/faults.ts';
import { type Flaw, openFlawedMongo, SILENCE } from '#testing/stores/flawed-mongo.ts';
import { FLAWS, type FlawCase, isInTransaction, nameOf, refusal } from '#testing/stores/flaws.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { type ProbeReport, probe } from './probe.ts';

/** Time limit of a behaviour. It is long, because a server is also slow if its machine runs other tests. */
const TIMEOUT_MS = 60_000;
/** Number of concurrent probes. A probe mostly waits for time limits. */
const AT_ONCE = 4;

const real = await openTestMongo(t, { empty: true });

/** Probes a server with this flaw. Returns its faults, by the names of behaviours. */
async function faultsOf({ flaw }: FlawCase): Promise<Map<string, string>> {
  const ends: (() => unknown)[] = [];
  const url = await openFlawedMongo({ teardown: (end) => void ends.push(end) }, real.url, flaw());
  const mongo = openMongo({ url, database: real.database, appName: 'examhall-test' });
  try {
    const { findings } = await probe(mongo, { limitMs: TIMEOUT_MS });
    return new Map(findings.flatMap(({ name, fault }) => (fault === null ? [] : [[name, fault]])));
  } finally {
    await mongo.close();
    for (const end of ends) await end();
  }
}

const line = pLimit(AT_ONCE);
const probed = FLAWS.map((one) => ({
  one,
  faults: line(() => faultsOf(one)),
}));

for (const { one, faults } of probed) {
  t.test(`a server that ${one.how} lacks: ${one.lacks}`, async (t) => {
    const found = await faults;
    for (const [name, fault] of found) t.comment(`${name}: ${fault}`);
    t.strictSame([...found.keys()].sort(), [one.lacks, ...(one.also ?? [])].sort());
  });
}

const SHUTTING_DOWN = 11600;

async function flawedDatabase(t: Parameters<typeof openTestMongo>[0], flaw: Flaw) {
  const real = await openTestMongo(t, { empty: true });
  const url = await openFlawedMongo(t, real.url, flaw);
  const mongo = openMongo({ url, database: real.database, appName: 'examhall-test' });
  t.teardown(() => mongo.close());
  return { real, mongo };
}

const collectionsOf = async (mongo: Mongo) => (await mongo.db.listCollections().toArray()).map(({ name }) => name);

const faultsIn = ({ findings }: ProbeReport) => findings.filter(({ fault }) => fault !== null);

t.test('the probe finds every behaviour on the server of the tests, and leaves no collection', async (t) => {
  const mongo = await openTestMongo(t, { empty: true });
  t.strictSame(faultsIn(await probe(mongo)), []);
  t.strictSame(await collectionsOf(mongo), []);
});

t.test('two concurrent probes do not disturb each other', async (t) => {
  const mongo = await openTestMongo(t, { empty: true });
  // Remaining collections are not checked here: if two are dropped at the same time, the stand-ins sometimes keep one, empty.
  for (const report of await Promise.all([probe(mongo), probe(mongo)])) t.strictSame(faultsIn(report), []);
});

t.test('a probe drops the collections of a killed probe, but not those of a running one', async (t) => {
  const mongo = await openTestMongo(t, { empty: true });
  const [killed, running, other] = [Date.now() - 3_600_000, Date.now()]
    .map((at) => `probe_${at}_00000000_rows`)
    .concat('probe_notes');
  for (const name of [killed, running, other]) await mongo.db.createCollection(name ?? '');
  await probe(mongo);
  t.strictSame((await collectionsOf(mongo)).sort(), [running, other].sort());
});

t.test(
  'a probe whose command is never answered reports its behaviour as missing, and leaves no transaction or collection',
  async (t) => {
    const open = new Set<string>();
    const { real, mongo } = await flawedDatabase(t, {
      command(command) {
        // Matches only the write to what an ended session had locked.
        return command.maxTimeMS !== undefined && nameOf(command) === 'update' ? SILENCE : undefined;
      },
      reply(_, command) {
        const transaction = JSON.stringify([command.lsid, command.txnNumber]);
        if (command.startTransaction === true) open.add(transaction);
        if (/^(abort|commit)Transaction$/.test(nameOf(command))) open.delete(transaction);
      },
    });
    const { findings } = await probe(mongo, { limitMs: 4_000 });
    const late = findings.filter(({ fault }) => fault === 'the server does not answer in time').map(({ name }) => name);
    t.ok(late.includes('ended sessions'), late.join());
    t.strictSame([...open], []);
    t.strictSame(await collectionsOf(real), []);
  },
);

t.test('a probe throws an outage instead of reporting a missing behaviour', async (t) => {
  for (const [what, flaw] of Object.entries({
    'a server that shuts down': {
      command: (command) =>
        nameOf(command) === 'insert' ? refusal(SHUTTING_DOWN, 'interrupted at shutdown') : undefined,
    },
    'a server that shuts down in a transaction': {
      command: (command) => (isInTransaction(command) ? refusal(SHUTTING_DOWN, 'interrupted at shutdown') : undefined),
    },
    'a server that answers nothing': { command: (command) => (command.lsid === undefined ? undefined : SILENCE) },
    'a server that stops answering': {
      command: (command) => (/insert|ping/.test(nameOf(command)) ? SILENCE : undefined),
    },
  } satisfies Record<string, Flaw>)) {
    const { mongo } = await flawedDatabase(t, flaw);
    const error = await probe(mongo, { limitMs: 1_000 }).then(
      () => 'passed',
      (thrown: unknown) => thrown,
    );
    t.ok(isOutage(error), `${what}: ${error}`);
  }
});

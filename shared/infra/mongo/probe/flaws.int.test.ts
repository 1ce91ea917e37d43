import pLimit from 'p-limit';
import t from 'tap';
import { openMongo } from '#infra/mongo/connect.ts';
import { openFlawedMongo } from '#testing/stores/flawed-mongo.ts';
import { FLAWS, type FlawCase } from '#testing/stores/flaws.ts';
import { openTestMongo } from '#testing/stores/open-test-mongo.ts';
import { probe } from './probe.ts';

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

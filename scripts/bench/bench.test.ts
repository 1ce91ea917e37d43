import { readFileSync } from 'node:fs';
import path from 'node:path';
import fc from 'fast-check';
import t from 'tap';
import { type Costs, OPERATIONS } from '#scripts/generate/capacity/costs.ts';
import { type Load, sizeOf, USUAL_LOAD } from '#scripts/generate/capacity/sizing.ts';
import { mongodbServer } from './machine.ts';
import { figuresOf, quantile, type Row, ratesOf } from './measure.ts';
import { type Arrival, highestRate, openLoop } from './open-loop.ts';
import { limitOf, openShares, processorMs, type Shares, sharesText } from './processor.ts';
import { markdownTable, noteLines, withFigures } from './report.ts';

t.test('an open loop sends each request when it is due, although earlier ones are not answered', async (t) => {
  const sent: string[] = [];
  const held = Promise.withResolvers<void>();
  const arrivals: Arrival[] = [
    {
      dueMs: 2,
      route: 'save',
      // Answers the first request, which would wait for ever if the loop waited for it.
      send: async () => {
        sent.push('second');
        held.resolve();
      },
    },
    {
      dueMs: 0,
      route: 'start',
      send: () => {
        sent.push('first');
        return held.promise;
      },
    },
    { dueMs: 3, route: 'save', send: () => Promise.reject(new Error('refused')) },
  ];
  const done: number[] = [];
  const { routes } = await openLoop(arrivals, (count) => done.push(count));
  t.strictSame(sent, ['first', 'second'], 'in the order of their due times');
  t.strictSame([...routes.keys()], ['start', 'save']);
  t.equal(routes.get('start')?.latencies.length, 1);
  t.equal(routes.get('save')?.latencies.length, 1);
  t.match(routes.get('save')?.failures, [{ message: 'refused' }]);
  t.strictSame(done, [1, 2, 3]);
});

t.test('the search for the highest rate doubles, then halves the distance', async (t) => {
  const tried: number[] = [];
  const below = (limit: number) => async (rate: number) => {
    tried.push(rate);
    return rate <= limit;
  };
  t.equal(await highestRate(50, 3, below(230)), 225);
  t.strictSame(tried, [50, 100, 200, 400, 300, 250, 225]);
  t.equal(await highestRate(50, 2, below(20)), 13, 'below the first rate');
  t.equal(await highestRate(4, 9, below(0)), 0, 'no rate holds');
});

t.test(
  'the bench identifies a MongoDB server by its replies, a stand-in with the version that it imitates',
  async (t) => {
    const rust = { version: '8.2.11', secantusVersion: '0.5.3-beta.196' };
    t.equal(mongodbServer(rust, { secantus: { server: 'rust' } }), 'secantusd-rs 0.5.3-beta.196 (speaks 8.2.11)');
    const python = { version: '8.2.11', secantusVersion: '0.7.0b3' };
    t.equal(mongodbServer(python, { secantus: { server: 'python' } }), 'SecantusDB 0.7.0b3 in Python (speaks 8.2.11)');
    t.equal(mongodbServer({ version: '8.0.12' }, {}), 'mongod 8.0.12');
  },
);

t.test('the bench does not report an unknown stand-in as mongod', async (t) => {
  t.match(mongodbServer({ version: '8.2.11', secantusVersion: '1.0.0' }, {}), /^SecantusDB .* unknown/);
});

const shares = (of: Shares['of'], others = 0): Shares => ({ of, others, processors: 2 });

t.test('the limit is the processors, a process that fills one, or neither', async (t) => {
  t.equal(
    limitOf(
      shares([
        ['MongoDB', 90],
        ['front door', 85],
      ]),
    ),
    'all processors, most of all MongoDB',
  );
  t.equal(limitOf(shares([['front door', 20]], 170)), 'other programs of the machine');
  t.equal(
    limitOf(
      shares([
        ['front door', 97],
        ['MongoDB', 20],
      ]),
    ),
    'front door',
  );
  t.equal(limitOf(shares([['front door', 40]], 10)), 'waiting, not processor time');
  t.equal(sharesText(shares([['front door', 40]], 10)), 'front door 40 %, other programs 10 %');
  t.equal(
    sharesText(
      shares([
        ['front door', 40],
        ['Redis', 0],
      ]),
    ),
    'front door 40 %',
  );
});

t.test(
  'the shares of processes are sorted and leave out unknown ones',
  { skip: process.platform !== 'linux' },
  async (t) => {
    const end = openShares({ self: process.pid, unknown: undefined });
    for (const from = performance.now(); performance.now() - from < 40; );
    t.match(
      end().of.map(([name]) => name),
      ['self'],
    );
    t.ok(processorMs(process.pid) > 0);
    t.ok(Number.isNaN(processorMs(undefined)));
  },
);

const row = (overrides: Partial<Row>): Row => ({
  name: 'a <b>',
  unit: 'ms',
  ours: { p50: 12, p99: 1_234 },
  reference: { p50: 10, p99: 20 },
  against: 'x | y',
  aim: { side: 'most', ratio: 1.3 },
  notes: ['odd'],
  ...overrides,
});

t.test('a row of the bench shows its figures, ratio and aim, and escapes markdown', async (t) => {
  const ratio = (aim: Row['aim']) =>
    markdownTable([row({ aim })])
      .split(' | ')
      .at(-1);
  t.match(markdownTable([row({})]), '| a <b> | 12.0 / 1 234 ms | 10.0 / 20.0 ms (x \\| y) | 1.20×, aim ≤ 1.3×: met |');
  t.match(markdownTable([row({ reference: null })]), /\| a <b> \| [^|]* \| – \(x \\\| y\) \| – \|/);
  t.equal(ratio({ side: 'most', ratio: 1.19 }), '1.20×, aim ≤ 1.19×: missed |');
  t.equal(ratio({ side: 'least', ratio: 1.2 }), '1.20×, aim ≥ 1.2×: met |');
  t.equal(ratio({ side: 'least', ratio: 1.21 }), '1.20×, aim ≥ 1.21×: missed |');
  t.equal(ratio(null), '1.20× |');
});

t.test('a bench note names its measure', async (t) => {
  t.strictSame(noteLines([row({ notes: ['same', 'took 2'] }), row({ name: 'c', notes: [] })]), [
    '- a <b>: same',
    '- a <b>: took 2',
  ]);
});

t.test('new figures replace those between their marks, and the page has marks for each kind of run', async (t) => {
  let page = readFileSync(path.resolve(import.meta.dirname, '../../docs/bench.md'), 'utf8');
  for (const name of ['all', 'exam-morning', 'stretches']) {
    const next = withFigures(page, name, [row({ name: `new ${name}` })], ['cores: 2']);
    t.equal(withFigures(next, name, [row({ name: `new ${name}` })], ['cores: 2']), next, 'once');
    t.match(next, `| new ${name} |`);
    t.equal(next.split(`<!-- figures: ${name} -->`)[0], page.split(`<!-- figures: ${name} -->`)[0]);
    t.equal(next.split(`<!-- end: ${name} -->`)[1], page.split(`<!-- end: ${name} -->`)[1]);
    page = next;
  }
  t.throws(() => withFigures(page, 'evening', [], []), { message: /no marks of evening/ });
});

t.test('a quantile is the nearest-rank sample, and the p99 of rates is the lowest rate', async (t) => {
  t.equal(quantile([4, 1, 3, 2], 0.5), 2);
  t.equal(quantile([7], 0.99), 7);
  t.ok(Number.isNaN(quantile([], 0.5)));
  t.strictSame(figuresOf(Array.from({ length: 200 }, (_, i) => 200 - i)), { p50: 100, p99: 198 });
  t.strictSame(ratesOf([30, 10, 20]), { p50: 20, p99: 10 });
});

const cost = { doorMs: 1, workerMs: 2, databaseMs: 1, commands: 3, bytes: 1_000 };
const COSTS = Object.fromEntries(Object.keys(OPERATIONS).map((operation) => [operation, cost])) as Costs;
const load = (students: number, shards = 1): Load => ({ ...USUAL_LOAD, students, shards });

t.test('the busiest phase decides on front doors and commands', (t) => {
  const { phases, processes, commandsOfShard, pollsOfShard } = sizeOf(load(36_000), COSTS);
  // 1,200 saves a second take 1.2 s of processor time, and a process provides 0.6 s.
  t.match(phases[2], { name: 'all save', rates: { save: 1_200, refresh: 40 }, doors: 3, commands: 3_720 });
  // 600 saves, 300 submits, 300 reads and 40 refreshes.
  t.match(phases[3], { rates: { save: 600, submit: 300, read: 300 }, doors: 3, commands: 3_720 });
  t.equal(processes.web, 3);
  t.equal(processes.grading, 1, '300 grades of 2 ms fill one process');
  t.equal(pollsOfShard, 1 + 2 * processes.gradenotices + 8);
  t.equal(commandsOfShard, 3_720 + pollsOfShard);
  t.end();
});

t.test('shards divide the commands, but neither the polls nor the collections of the first shard', (t) => {
  const one = sizeOf(load(1_000_000), COSTS);
  const ten = sizeOf(load(1_000_000, 10), COSTS);
  const onFirst = ten.phases.map(
    ({ commands, twoPhase, first }) => first + (commands - first + twoPhase) / 10 + ten.pollsOfShard,
  );
  t.equal(ten.commandsOfShard, Math.ceil(Math.max(...onFirst)));
  t.equal(ten.pollsOfShard, ten.processes.grading + ten.processes.gradenotices + ten.processes.others);
  t.ok(one.pollsOfShard > ten.pollsOfShard, 'on several shards a process polls all its queues at once');
  t.ok(Math.abs(one.diskGiB / 10 - ten.diskGiB) < 1e-9);
  t.equal(one.shardsNeeded, ten.shardsNeeded, 'the need does not depend on what is there');
  t.end();
});

t.test('more students never need less of anything', (t) => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 2e6 }), fc.integer({ min: 0, max: 1e6 }), (students, more) => {
      const [small, large] = [sizeOf(load(students), COSTS), sizeOf(load(students + more), COSTS)];
      const of = ({ processes, ...size }: typeof small) => [
        processes.web,
        processes.grading,
        processes.gradenotices,
        size.commandsOfShard,
        size.shardsNeeded ?? Number.POSITIVE_INFINITY,
        size.redisCommands,
        size.connections,
        size.diskGiB,
      ];
      const before = of(small);
      return of(large).every((value, index) => value >= (before[index] ?? 0));
    }),
  );
  t.end();
});

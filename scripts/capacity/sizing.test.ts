import fc from 'fast-check';
import t from 'tap';
import { type Costs, OPERATIONS } from './costs.ts';
import { type Load, sizeOf, USUAL_LOAD } from './sizing.ts';

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

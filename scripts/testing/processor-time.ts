/** Rounds of a measure, of which the shortest counts: another process may disturb some of them, and the first one compiles. */
const ROUNDS = 5;

/**
 * Returns the processor time that this process spends on each piece of work, in milliseconds. The pieces take turns, so that a test can
 * compare them on a busy machine.
 */
export async function processorTimes(works: readonly (() => unknown)[], rounds = ROUNDS): Promise<number[]> {
  const times = works.map(() => Number.POSITIVE_INFINITY);
  for (let round = 0; round < rounds; round += 1) {
    for (const [index, work] of works.entries()) {
      const before = process.cpuUsage();
      await work();
      const { user, system } = process.cpuUsage(before);
      times[index] = Math.min(times[index] ?? 0, (user + system) / 1_000);
    }
  }
  return times;
}

import t from 'tap';
import { untilUsable } from './until-usable.ts';

/** Returns a check that fails with these reasons, one per call, and then succeeds. */
function rig(...reasons: string[]) {
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
  const { deps, said, tries } = rig('away', 'old', 'old', 'no clock');
  t.equal(await untilUsable(deps), true);
  t.strictSame(said, ['away', 'old', 'no clock']);
  t.equal(tries(), 5);
});

t.test('a stop ends the wait for a usable database at any point', async (t) => {
  const [told, during, late] = [rig('away'), rig('away', 'stop', 'away'), rig()];
  told.stop.abort();
  t.equal(await untilUsable(told.deps), false);
  t.equal(told.tries(), 0);
  t.equal(await untilUsable(during.deps), false);
  t.equal(during.tries(), 2);
  const usableTooLate = { ...late.deps, check: async () => late.stop.abort() };
  t.equal(await untilUsable(usableTooLate), false, 'a process that must stop starts nothing');
  const asleep = rig('away');
  const waiting = untilUsable({ ...asleep.deps, retryMs: 3_600_000 });
  setImmediate(() => asleep.stop.abort());
  t.equal(await waiting, false);
});

import { EventEmitter } from 'node:events';
import t from 'tap';
import { type DrainDeps, drainOnSignal } from './drain.ts';

function rig(change: Partial<DrainDeps> = {}) {
  const signals = new EventEmitter();
  const steps: string[] = [];
  const exited = Promise.withResolvers<number>();
  const draining = new AbortController();
  draining.signal.addEventListener('abort', () => steps.push('unready'));
  const note = (_fields: object, message: string): void => void steps.push(message);
  const log = { debug: note, info: note, warn: note, error: note, fatal: note, child: () => log };
  drainOnSignal({
    signals: signals as unknown as DrainDeps['signals'],
    exit: (code) => exited.resolve(code),
    log,
    draining,
    close: async (ms) => {
      steps.push(`close ${ms}`);
      return true;
    },
    after: async () => {
      steps.push('after');
    },
    graceMs: 0,
    timeoutMs: 20_000,
    ...change,
  });
  return { signals, steps, exited: exited.promise };
}

t.test('SIGTERM turns the process unready, closes it and its stores, and exits 0', async (t) => {
  const { signals, steps, exited } = rig();
  signals.emit('SIGTERM', 'SIGTERM');
  t.equal(await exited, 0);
  t.strictSame(steps, ['draining', 'unready', 'close 20000', 'after']);
});

t.test('a second signal exits at once with 1', async (t) => {
  const { signals, exited } = rig({ close: () => new Promise(() => undefined) });
  signals.emit('SIGTERM');
  signals.emit('SIGINT');
  t.equal(await exited, 1);
});

t.test('a shutdown that aborts requests, or whose close fails, exits 1', async (t) => {
  for (const close of [async () => false, () => Promise.reject(new Error('no'))]) {
    const { signals, steps, exited } = rig({ close });
    signals.emit('SIGINT');
    t.equal(await exited, 1);
    t.ok(steps.includes('after'));
  }
});

t.test('an uncaught error is logged, drains and exits 1, and a second one changes nothing', async (t) => {
  for (const event of ['uncaughtException', 'unhandledRejection']) {
    const { signals, steps, exited } = rig();
    signals.emit(event, new Error('bug'));
    signals.emit(event, new Error('bug again'));
    t.equal(await exited, 1);
    t.strictSame(steps, ['uncaught error', 'unready', 'uncaught error', 'close 20000', 'after']);
  }
});

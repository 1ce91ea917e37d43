import t from 'tap';
import type { Command } from '#shared/kernel/command.ts';
import { scriptActor, withStep } from '#testing/actors/test-kernel.ts';
import { again } from '#testing/stored/stored-commands.ts';
import { endedWell, type Feature, kernelSuite } from '#testing/suites/kernel-suite.ts';
import { gate, until } from '#testing/until.ts';
import { runCommand } from './run-command.ts';
import { openWorker } from './worker.ts';

const HOUR_MS = 3_600_000;

const FEATURES: readonly Feature[] = [
  {
    name: 'one poll finds every due command without a ring',
    async show(scene) {
      const { subject, actor } = scene;
      const commands = [await subject.post(), await subject.post(), await subject.post()];
      const worker = openWorker(scene.kernel(), actor, { concurrency: 2, pollMs: HOUR_MS, now: Date.now });
      await worker.poll();
      await worker.idle();
      await worker.drain();
      for (const command of commands) await endedWell(scene, command);
    },
  },
  {
    name: 'the poll repeats by itself until the worker drains',
    async show(scene) {
      const { t, subject, actor } = scene;
      let turns = 0;
      const now = () => {
        turns += 1;
        return Date.now();
      };
      const worker = openWorker(scene.kernel(), actor, { concurrency: 2, pollMs: 20, now });
      await until('the first turn is over', () => turns > 1);
      const command = await subject.post();
      await until('done', async () => (await subject.effects(command)) === 1);
      await worker.drain();
      const late = await subject.post();
      await worker.poll();
      t.equal(await subject.effects(late), 0, 'a drained worker claims nothing');
    },
  },
  {
    name: 'the worker runs the command first that has been due longest',
    async show({ t, subject, actor, kernel }) {
      const now = Date.now();
      const commands: Command[] = [];
      for (const ageMs of [20_000, 40_000, 10_000, 30_000]) commands.push(await subject.post({ runAt: now - ageMs }));
      const future = await subject.post({ runAt: now + HOUR_MS });
      const order = scriptActor(actor);
      const worker = openWorker(kernel(), order, { concurrency: 1, pollMs: HOUR_MS, now: Date.now });
      await worker.poll();
      await worker.idle();
      await worker.drain();
      t.strictSame(
        order.runs,
        [1, 3, 0, 2].map((n) => commands[n]?._id),
      );
      t.equal(
        await subject.effects(future),
        subject.name === 'upkeep' ? 1 : 0,
        'a command that is not due is not claimed',
      );
    },
  },
  {
    name: 'a slow command does not delay the others',
    async show(scene) {
      const { t, subject, actor } = scene;
      const go = gate();
      const slow = await subject.post({ runAt: Date.now() - HOUR_MS });
      const others = [];
      for (let n = 0; n < 4; n++) others.push(await subject.post());
      const slowly = withStep(actor, async ({ command }, real) => {
        if (command._id === slow._id) await go.opened;
        return real();
      });
      const worker = openWorker(scene.kernel(), slowly, { concurrency: 2, pollMs: HOUR_MS, now: Date.now });
      await worker.poll();
      await until('the others are done', () => worker.busy().length === 1);
      t.strictSame(worker.busy(), [slow._id]);
      for (const command of others) await endedWell(scene, command);
      go.open();
      await worker.drain();
      await endedWell(scene, slow);
    },
  },
  {
    name: 'ring and poll never run one command twice in a process, nor more commands than it has slots',
    async show(scene) {
      const { t, subject, actor } = scene;
      const commands = [];
      for (let n = 0; n < 6; n++) commands.push(await subject.post());
      let [running, most] = [0, 0];
      const counted = withStep(actor, async (_run, real) => {
        most = Math.max(most, ++running);
        return real().finally(() => running--);
      });
      const kernel = scene.kernel();
      const worker = openWorker(kernel, counted, { concurrency: 3, pollMs: 5, now: Date.now });
      const rings = commands.flatMap((command) => [worker.tryRun(command), worker.tryRun(command)]);
      await Promise.all(rings);
      await worker.drain();
      t.ok(most <= 3, `${most} ran at once`);
      for (const command of commands) await endedWell(scene, command);
      t.equal(kernel.results.filter(({ result }) => result === subject.ends.result).length, commands.length);
    },
  },
  {
    name: 'drain lets running commands finish and claims no more',
    async show(scene) {
      const { t, mongo, subject, actor } = scene;
      const [reached, go] = [gate(), gate()];
      const running = await subject.post({ runAt: Date.now() - HOUR_MS });
      const waiting = await subject.post();
      const slowly = withStep(actor, async (_run, real) => {
        reached.open();
        await go.opened;
        return real();
      });
      const worker = openWorker(scene.kernel(), slowly, { concurrency: 1, pollMs: HOUR_MS, now: Date.now });
      const first = worker.tryRun(running);
      const second = worker.tryRun(waiting);
      await reached.opened;
      const drained = worker.drain();
      go.open();
      await drained;
      t.equal(await first, subject.ends.result);
      t.equal(await second, 'not-ours');
      t.equal(await worker.tryRun(waiting), 'not-ours');
      await endedWell(scene, running);
      t.match(await again(mongo, waiting), { status: 'PENDING', attempts: 0, fence: 0, lockedUntil: null });
    },
  },
  {
    name: 'a command that a stop interrupts is snoozed, with its attempt refunded, and due at once',
    async show(scene) {
      const { t, mongo, subject, actor } = scene;
      const reached = gate();
      const endless = scriptActor(actor, async ({ signal }) => {
        reached.open();
        await new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
        throw new Error('not reached');
      });
      const command = await subject.post();
      const kernel = scene.kernel();
      const run = runCommand(kernel, endless, command);
      await reached.opened;
      kernel.halt.abort(new Error('the process is stopping'));
      t.equal(await run, 'failed');
      t.match(await again(mongo, command), { status: 'PENDING', attempts: 0, lockedUntil: null, workerId: null });
      t.equal(await runCommand(scene.kernel(), actor, command), subject.ends.result);
      await endedWell(scene, command);
    },
  },
];

t.test('a worker process claims in order, within its slots, and stops in order', (t) => kernelSuite(t, FEATURES));

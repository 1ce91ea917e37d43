import { liveWorkers } from '#infra/mongo/live-workers.ts';
import { actorOf } from '#infra/mongo/mailbox/commands.ts';
import { queueDepths } from '#infra/mongo/mailbox/queue-depths.ts';
import { schemaFaults } from '#infra/mongo/schema/migrate.ts';
import { askOnce } from '#infra/redis/ask-once.ts';
import { alarmsOf } from '#shared/operations/alarms.ts';
import { EXIT } from './exit-codes.ts';
import type { CliCommands, Flags, Operator } from './operator.ts';
import { print } from './output.ts';

/** The command that checks whether the cluster needs its operator. */
export const STATUS_COMMANDS: CliCommands = {
  status: {
    summary: 'check whether all is well; otherwise print what to do',
    details: `Exit code 1 with an alarm: work is due without a live worker, a queue is a minute late, a dead
letter is neither acknowledged nor dropped, Redis does not answer, or the schema does not fit.`,
    options: ['json', 'watch'],
    examples: ['status', 'status --watch', 'status --json || notify-operator'],
    run: tellStatus,
  },
};

async function tellStatus(operator: Operator, _words: string[], flags: Flags): Promise<number> {
  const { mongo, redisUrl } = operator;
  const now = operator.now();
  const live = await liveWorkers(mongo, now);
  const [depths, pong, faults] = await Promise.all([
    queueDepths(mongo, now, live),
    askOnce(redisUrl, (client) => client.ping()),
    schemaFaults(mongo),
  ]);
  const alarms = alarmsOf({
    queues: depths.map((depth) => ({ ...depth, actor: actorOf(depth.queue) })),
    liveActors: new Set(live.map(({ actor }) => actor)),
    redis: { answers: pong !== null },
    schemaFaults: faults,
  });
  const running = depths.reduce((sum, depth) => sum + depth.running, 0);
  const due = depths.reduce((sum, depth) => sum + depth.due, 0);
  const summary = { workers: live.length, running, due };
  print(operator, flags, { well: alarms.length === 0, alarms, ...summary }, () =>
    [
      alarms.length === 0 ? 'all is well' : `${alarms.length === 1 ? '1 alarm' : `${alarms.length} alarms`}`,
      ...alarms.map(({ text, remedy }) => `  ${text}: ${remedy}`),
      `${live.length} live worker processes, ${running} commands running, ${due} due`,
    ].join('\n'),
  );
  return alarms.length === 0 ? EXIT.done : EXIT.failed;
}

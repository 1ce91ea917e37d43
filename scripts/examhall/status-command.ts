import { readStatus } from '#infra/mongo/operations/cluster.ts';
import { storesRings } from '#infra/redis/ask-once.ts';
import { EXIT } from './exit-codes.ts';
import { type CliCommands, counted, type Flags, type Operator } from './operator.ts';
import { print } from './output.ts';

/** The command that checks whether the cluster needs its operator. */
export const STATUS_COMMANDS: CliCommands = {
  status: {
    summary: 'check whether all is well; otherwise print what to do',
    details: `Exit code 1 with an alarm: work is due without a live worker, a queue is a minute late, a dead
letter is neither acknowledged nor dropped, Redis stores no rings, a service does not answer, or the
schema does not fit.`,
    options: ['json', 'watch'],
    examples: ['status', 'status --watch', 'status --json || notify-operator'],
    run: tellStatus,
  },
};

async function tellStatus(operator: Operator, _words: string[], flags: Flags): Promise<number> {
  const { mongo, redisUrl } = operator;
  const status = await readStatus(mongo, operator.now(), () => storesRings(redisUrl));
  const { well, alarms, workers, running, due } = status;
  print(operator, flags, status, () =>
    [
      well ? 'all is well' : counted(alarms.length, 'alarm'),
      ...alarms.map(({ text, remedy }) => `  ${text}: ${remedy}`),
      `${workers} live worker processes, ${running} commands running, ${due} due`,
    ].join('\n'),
  );
  return well ? EXIT.done : EXIT.failed;
}

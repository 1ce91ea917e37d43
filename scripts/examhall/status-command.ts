import { readStatus } from '#infra/mongo/operations/cluster.ts';
import { storesRings } from '#infra/redis/ask-once.ts';
import type { ClusterStatus } from '#shared/generated/operations.ts';
import { EXIT } from './exit-codes.ts';
import { type CliCommands, counted, type Flags, type Operator } from './operator.ts';
import { print } from './output.ts';

/** The command that checks whether the cluster needs its operator. */
export const STATUS_COMMANDS: CliCommands = {
  status: {
    summary: 'check whether all is well; otherwise print what to do',
    details: `Exit code 1 with an alarm: work is due without a live worker, a queue is a minute late, a
command that harmed two workers is held or runs alone, one piece of work held an event loop
for 2.5 s, a dead letter is neither acknowledged nor dropped, Redis stores no rings, a service does
not answer or refuses its token, its sender or its address, commands have failed for ten minutes, a
run hangs, or the schema does not fit. A note is no alarm: commands wait for a setting, or reports to
other systems fail or are dead.`,
    options: ['json', 'watch'],
    examples: ['status', 'status --watch', 'status --json || notify-operator'],
    run: tellStatus,
  },
};

async function tellStatus(operator: Operator, _words: string[], flags: Flags): Promise<number> {
  const { mongo, redisUrl } = operator;
  const status = await readStatus(mongo, operator.now(), () => storesRings(redisUrl));
  const { well, alarms, notes, workers, running, due } = status;
  print(operator, flags, status, () =>
    [
      verdictOf(status),
      ...alarms.map(({ text, remedy }) => `  ${text}: ${remedy}`),
      ...notes.map(({ text, remedy }) => `  note: ${text}: ${remedy}`),
      `${workers} live worker processes, ${running} commands running, ${due} due`,
    ].join('\n'),
  );
  return well ? EXIT.done : EXIT.failed;
}

function verdictOf({ well, alarms, notes }: ClusterStatus): string {
  if (well && notes.length === 0) return 'all is well';
  const noted = notes.length === 0 ? '' : `, ${counted(notes.length, 'note')}`;
  return `${well ? 'no alarm' : counted(alarms.length, 'alarm')}${noted}`;
}

import { isSuperseded } from '#infra/mongo/classifier/generation-epochs.ts';
import {
  type DeadLetterFilter,
  deadCommands,
  findCommand,
  markDead,
  replayDead,
} from '#infra/mongo/mailbox/dead-letters.ts';
import type { OperatorAct } from '#infra/mongo/operator-audit.ts';
import type { Command, DeadLetterMark, Queue } from '#shared/kernel/command.ts';
import { EXIT } from './exit-codes.ts';
import { actFor, type CommandWork, counted, type Flags, type Operator, reasonOf } from './operator.ts';
import { LIMIT_WANTED, limitOf, print, refuse } from './output.ts';
import { readMoment } from './read-moment.ts';

/** One act on dead letters: its words, and its work on one command. */
interface DeadAct {
  verb: string;
  done: string;
  /** Returns the reason for which the command is left as it is, or null. */
  refusal(command: Command): Promise<string | null>;
  /** Returns a note for the dry run. */
  note(command: Command): Promise<string>;
  /** Returns false if the command has changed meanwhile, or needs no act. */
  act(command: Command, by: OperatorAct): Promise<boolean>;
  /** The reason for which `act` returned false. */
  skipped: string;
}

const REFUSED = 'superseded; pass --charge-superseded to charge an answer that no request returns';
const WILL_CHARGE = '  superseded: charges an answer that no request returns';

export const replay: CommandWork = (operator, ids, flags) => {
  const { mongo } = operator;
  const isCharge = async ({ queue, subject }: Command) => queue === 'settlement' && isSuperseded(mongo, subject);
  return actOnDead(operator, ids, flags, {
    verb: 'replay',
    done: 'replayed',
    refusal: async (command) => (flags.chargeSuperseded !== true && (await isCharge(command)) ? REFUSED : null),
    note: async (command) => ((await isCharge(command)) ? WILL_CHARGE : ''),
    act: async (command, by) => replayDead(mongo, command, by, { chargeSuperseded: await isCharge(command) }),
    skipped: 'not dead',
  });
};

export const acknowledge: CommandWork = (operator, ids, flags) =>
  actOnDead(operator, ids, flags, markAs(operator, 'ACKNOWLEDGED', { verb: 'acknowledge', done: 'acknowledged' }));

export const drop: CommandWork = (operator, ids, flags) =>
  actOnDead(operator, ids, flags, markAs(operator, 'DROPPED', { verb: 'drop', done: 'dropped' }));

function markAs({ mongo }: Operator, letter: DeadLetterMark, words: Pick<DeadAct, 'verb' | 'done'>): DeadAct {
  return {
    ...words,
    refusal: async () => null,
    note: async () => '',
    act: (command, by) => markDead(mongo, command, letter, by),
    skipped: `not dead, or already ${words.done}`,
  };
}

/** The result for one command that the operator has chosen. */
interface ActRow {
  id: string;
  queue: string;
  cause: string;
  outcome: 'dry run' | 'done' | 'skipped';
  why: string;
}

/** Does one act on the chosen dead letters, each with an audit line of its own; without `--yes` it only lists them. */
async function actOnDead(operator: Operator, ids: string[], flags: Flags, wanted: DeadAct): Promise<number> {
  const reason = reasonOf(operator, flags);
  if (reason === null) return EXIT.usage;
  const commands = await chosen(operator, ids, flags);
  if (typeof commands === 'string') return refuse(operator, commands);
  const rows: ActRow[] = [];
  for (const command of commands) {
    const row = { id: command._id, queue: command.queue, cause: command.lastError?.message ?? '' };
    const refusal = await wanted.refusal(command);
    if (refusal !== null) rows.push({ ...row, outcome: 'skipped', why: refusal });
    else if (flags.yes !== true) rows.push({ ...row, outcome: 'dry run', why: await wanted.note(command) });
    else {
      const isDone = await wanted.act(command, actFor(operator, reason));
      rows.push({ ...row, outcome: isDone ? 'done' : 'skipped', why: isDone ? '' : wanted.skipped });
    }
  }
  const dryRun = flags.yes !== true;
  print(operator, flags, { dryRun, rows }, () => (dryRun ? dryRunText(rows, wanted) : doneText(rows, wanted)));
  if (dryRun) return EXIT.done;
  return rows.length > 0 && rows.every(({ outcome }) => outcome === 'done') ? EXIT.done : EXIT.failed;
}

function dryRunText(rows: readonly ActRow[], { verb, done }: DeadAct): string {
  const count = rows.filter(({ outcome }) => outcome === 'dry run').length;
  const pronoun = count === 1 ? 'it' : 'them';
  return [
    `dry run: ${counted(count, 'dead command')} would be ${done}; pass --yes to ${verb} ${pronoun}`,
    ...rows.map(
      ({ id, queue, cause, outcome, why }) =>
        `  ${id}  ${queue}  ${cause}${outcome === 'skipped' ? `  skipped: ${why}` : why}`,
    ),
  ].join('\n');
}

function doneText(rows: readonly ActRow[], { done }: DeadAct): string {
  const count = rows.filter(({ outcome }) => outcome === 'done').length;
  const lines = rows.map(({ id, outcome, why }) => `${id}  ${outcome === 'done' ? done : `skipped: ${why}`}`);
  return [...lines, `${count} of ${rows.length} ${done}`].join('\n');
}

/** Returns the chosen commands, or the fault of the arguments. An id without a command is reported and left out. */
async function chosen(operator: Operator, ids: string[], flags: Flags): Promise<Command[] | string> {
  const filter = readFilter(flags, operator.now());
  if (typeof filter === 'string') return filter;
  const isFiltered = Object.keys(filter).length > 0;
  if (ids.length > 0 && isFiltered) return 'pass command ids or a filter, not both';
  if (ids.length === 0 && !isFiltered) return 'pass command ids or a filter, for example --queue QUEUE';
  const limit = limitOf(flags, 100);
  if (limit === null) return LIMIT_WANTED;
  if (isFiltered) return deadCommands(operator.mongo, { ...filter, limit });
  const found = await Promise.all(ids.map((id) => findCommand(operator.mongo, id)));
  for (const [index, id] of ids.entries()) if (found[index] === null) operator.fail(`no command with id ${id}`);
  return found.filter((command) => command !== null);
}

/** Returns the filter of a command line, or the fault of one of its times. `now` is in Unix milliseconds. */
export function readFilter(flags: Flags, now: number): DeadLetterFilter | string {
  const since = flags.since === undefined ? undefined : readMoment(flags.since, now);
  const until = flags.until === undefined ? undefined : readMoment(flags.until, now);
  if (since === null || until === null)
    return '--since and --until must be a time such as 2026-11-23T08:00Z, or an age such as 90m, 2h or 3d';
  return {
    ...(flags.queue === undefined ? {} : { queue: flags.queue as Queue }),
    ...(flags.cause === undefined ? {} : { cause: flags.cause }),
    ...(flags.subject === undefined ? {} : { subject: flags.subject }),
    ...(since === undefined ? {} : { since }),
    ...(until === undefined ? {} : { until }),
  };
}

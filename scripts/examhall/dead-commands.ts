import { deadGroups } from '#infra/mongo/mailbox/dead-groups.ts';
import type { DeadLetterFilter } from '#infra/mongo/mailbox/dead-letters.ts';
import { findLetter, PAGE_LETTERS, readLetters } from '#infra/mongo/operations/dead-acts.ts';
import { deadAct, GROUP_COLUMNS, readFilter, showBulks, stopOne } from './dead-acts.ts';
import { atCursor, type CliCommands, type Flags, limitOf, type Operator, type OptionName } from './operator.ts';
import { EXIT, nextPage, print, Refused, table, WrongUsage } from './output.ts';

const FILTERS: readonly OptionName[] = ['queue', 'cause', 'subject', 'since', 'until'];
const ACT: readonly OptionName[] = [...FILTERS, 'limit', 'all', 'per-second', 'reason', 'operator', 'yes', 'json'];
const IDS = { '[id...]': 'ids of dead commands; none with a filter' };

export const DEAD_COMMANDS: CliCommands = {
  'dead list': {
    summary: 'list dead letters, grouped by queue and cause',
    details: 'Dropped letters are listed only with --dropped.',
    options: [...FILTERS, 'dropped', 'each', 'limit', 'cursor', 'json'],
    examples: ['dead list', 'dead list --queue delivery:webhook --since 2h', 'dead list --queue grading --each'],
    run: listDead,
  },
  'dead show': {
    summary: 'print one command as JSON',
    args: { '<id>': 'id of the command, as `dead list` prints it' },
    options: ['json'],
    examples: ['dead show 01a205a8-0eb0-7d7f-ac5e-c6d6312290b5'],
    run: showDead,
  },
  'dead replay': {
    summary: 'replay dead commands, once per death; audited',
    details: `Pass ids or a filter. A settlement whose request was charged anew is skipped, unless --charge-superseded is
set. With --all, a bulk act replays every letter of the filter at a steady pace; it goes on without this command.`,
    args: IDS,
    options: [...ACT, 'charge-superseded'],
    examples: [
      'dead replay --queue grading --reason "disk was cleared"',
      'dead replay --queue grading --reason "disk was cleared" --yes',
      'dead replay --queue delivery:webhook --all --reason "the receiver is back" --yes',
    ],
    run: deadAct('replay'),
  },
  'dead ack': {
    summary: 'acknowledge dead letters: they raise no alarm and stay in the list; audited',
    details: 'An acknowledged letter can be replayed. If it dies again, it raises the alarm again.',
    args: IDS,
    options: ACT,
    examples: ['dead ack 01a205a8-0eb0-7d7f-ac5e-c6d6312290b5 --reason "ticket 4711" --yes'],
    run: deadAct('ack'),
  },
  'dead drop': {
    summary: 'drop dead letters: they leave the list and are never replayed; audited',
    details: 'It cannot be undone. The command stays stored as DEAD, so a repeated request does not run it either.',
    args: IDS,
    options: ACT,
    examples: ['dead drop --queue delivery:webhook --until 2d --reason "the receiver is gone"'],
    run: deadAct('drop'),
  },
  'dead jobs': {
    summary: 'list bulk acts, newest first, or print one as JSON',
    args: { '[id]': 'id of a bulk act' },
    options: ['limit', 'json'],
    examples: ['dead jobs', 'dead jobs 01a205a8-0eb0-7d7f-ac5e-c6d6312290b5'],
    run: showBulks,
  },
  'dead stop': {
    summary: 'stop a bulk act: what it has done stays done; audited',
    args: { '<id>': 'id of a bulk act, as `dead jobs` prints it' },
    options: ['reason', 'operator', 'json'],
    examples: ['dead stop 01a205a8-0eb0-7d7f-ac5e-c6d6312290b5 --reason "the receiver is down again"'],
    run: stopOne,
  },
};

async function listDead(operator: Operator, _words: string[], flags: Flags): Promise<number> {
  const filter = readFilter(flags, operator.now());
  const wanted = { ...filter, ...(flags.dropped === true && ({ letter: 'DROPPED' } as const)) };
  if (flags.each === true) return listEach(operator, wanted, flags);
  if (flags.limit !== undefined || flags.cursor !== undefined)
    throw new WrongUsage('--limit and --cursor are for --each');
  const { groups, more } = await deadGroups(operator.mongo, wanted);
  if (more) operator.note('there are more letters than were counted: each count is a lower bound');
  return print(operator, flags, { groups, more }, () =>
    groups.length === 0 ? ['no dead letters'] : table(groups, { ...GROUP_COLUMNS, example: ({ example }) => example }),
  );
}

/** Prints a page of single letters, by queue and id. A page may be empty before the last one, because each reads a bounded number. */
async function listEach(operator: Operator, wanted: DeadLetterFilter, flags: Flags): Promise<number> {
  const limit = limitOf(flags, PAGE_LETTERS);
  const page = atCursor(await readLetters(operator.mongo, wanted, { cursor: flags.cursor ?? null, limit }));
  const { letters, nextCursor } = page;
  const columns = {
    died: ({ settledAt }: Letter) => settledAt,
    queue: ({ queue }: Letter) => queue,
    id: ({ id }: Letter) => id,
    subject: ({ subject }: Letter) => subject,
    mark: ({ letter }: Letter) => letter?.toLowerCase(),
    cause: ({ error }: Letter) => error?.fingerprint,
  };
  type Letter = (typeof letters)[number];
  const isEmpty = letters.length === 0 && nextCursor === null;
  return print(operator, flags, page, () => [
    ...(isEmpty ? ['no dead letters'] : table(letters, columns)),
    ...nextPage(page),
  ]);
}

async function showDead(operator: Operator, [id = '']: string[]): Promise<number> {
  const found = await findLetter(operator.mongo, id, operator.now());
  if (found === null) throw new Refused(`no command with id ${id}`);
  const { command, state, superseded } = found;
  const more = { ...(state === null ? {} : { state }), ...(superseded ? { superseded } : {}) };
  operator.say(JSON.stringify({ ...command, ...more }, null, 2));
  if (superseded) operator.note(SUPERSEDED_WARNING);
  return EXIT.done;
}

const SUPERSEDED_WARNING =
  'warning: superseded: an equal request was charged anew, so a replay would charge an answer that no request returns';

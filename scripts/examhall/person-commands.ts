import { createWriteStream } from 'node:fs';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { type ErasedPerson, findTombstone, isErased, tombstoneId } from '#infra/mongo/erased-persons.ts';
import { type OperatorAct, writeAudit } from '#infra/mongo/operator-audit.ts';
import { type Erasing, erasePerson } from '#infra/mongo/person/erase.ts';
import { exportPerson } from '#infra/mongo/person/export.ts';
import { countRows, findPerson } from '#infra/mongo/person/find.ts';
import { endAttempts, openAttempts } from '#infra/mongo/person/ungraded.ts';
import { DECLARATIONS } from '#infra/mongo/schema/personal-fields.ts';
import { actFor, type CliCommands, type CommandWork, type Flags, type Operator } from './operator.ts';
import { counted, EXIT, Refused, WrongUsage } from './output.ts';

/** An audited action on one person. Returns the exit code. */
type PersonAct = (operator: Operator, id: string, act: OperatorAct, flags: Flags) => Promise<number>;

const PERSON = { '<id>': 'id of an account, or of a user of another identity service' };

/** The commands for the data of one person. ID is the id of an account, or of a user of another identity service. */
export const PERSON_COMMANDS: CliCommands = {
  'person show': {
    summary: 'count the rows about a person, by collection; shows no content',
    args: PERSON,
    options: ['reason', 'operator'],
    examples: ['person show 01a205a8-0eb0-7d7f-ac5e-c6d6312290b5 --reason "request by letter"'],
    run: onPerson(show),
  },
  'person export': {
    summary: 'print everything stored about a person, as one JSON document',
    args: PERSON,
    options: ['out', 'reason', 'operator'],
    examples: ['person export 01a205a8-0eb0-7d7f-ac5e-c6d6312290b5 --reason "request by letter" --out an.json'],
    run: onPerson(exportData),
  },
  'person erase': {
    summary: 'delete or pseudonymise what is stored about a person, and print a receipt',
    details:
      'It cannot be undone. Repeat the command after an interruption: the erasure goes on.\n`upkeep` runs it once more after 20 minutes, for what was in flight.',
    args: PERSON,
    options: ['end-open-attempts', 'reason', 'operator', 'yes'],
    examples: ['person erase 01a205a8-0eb0-7d7f-ac5e-c6d6312290b5 --reason "request by letter"'],
    run: onPerson(erase),
  },
};

function onPerson(work: PersonAct): CommandWork {
  return async (operator, [id = ''], flags) => {
    const act = actFor(operator, flags);
    if (id === '') throw new WrongUsage('the id of the person is empty');
    return work(operator, id, act, flags);
  };
}

/** Prints the number of rows in each collection, and never what is in them. */
async function show(operator: Operator, id: string, act: OperatorAct): Promise<number> {
  const { mongo, say } = operator;
  const [counts, tombstone] = await Promise.all([
    findPerson(mongo, id).then((one) => countRows(mongo, one)),
    findTombstone(mongo, id),
  ]);
  await audit(operator, id, act, 'account.person-show', { rows: sumOf(counts.values()) });
  if (tombstone !== null) say(stateOf(tombstone));
  if (counts.size === 0) {
    say('no rows about this person');
    return tombstone === null ? 1 : 0;
  }
  tellCounts(operator, counts);
  return EXIT.done;
}

function tellCounts({ say }: Operator, counts: ReadonlyMap<string, number>): void {
  for (const [collection, rows] of counts) say(`${`${rows}`.padStart(9)}  ${collection}`);
}

function stateOf({ _id, state, begunAt, erasedAt, again }: ErasedPerson): string {
  const next = again === undefined ? '' : `, next pass by \`upkeep\` at ${again.at.toISOString()}`;
  if (erasedAt !== null && state === 'ERASED') return `erased at ${erasedAt.toISOString()}, tombstone ${_id}${next}`;
  return `erasure begun at ${begunAt.toISOString()}, tombstone ${_id}${next}: run \`examhall person erase\` again`;
}

/** Writes one JSON document to FILE, which only its owner can read, or to stdout. */
async function exportData(operator: Operator, id: string, act: OperatorAct, flags: Flags): Promise<number> {
  const { mongo, note } = operator;
  const person = await findPerson(mongo, id);
  const counts = await countRows(mongo, person);
  if (counts.size === 0) throw new Refused('no rows about this person');
  const rows = sumOf(counts.values());
  // The line comes first: an export that was interrupted has shown data too.
  await audit(operator, id, act, 'account.person-export', { rows });
  const parts = exportPerson(mongo, person, new Date(act.now));
  if (flags.out === undefined) await pipeline(Readable.from(parts), operator.output, { end: false });
  else {
    try {
      await pipeline(Readable.from(parts), createWriteStream(flags.out, { flags: 'wx', mode: 0o600 }));
    } catch (error) {
      throw error instanceof Error && 'syscall' in error ? new Refused(error.message) : error;
    }
  }
  note(`exported about ${counted(rows, 'row')} of ${counted(counts.size, 'collection')}`);
  return EXIT.done;
}

async function erase(operator: Operator, id: string, act: OperatorAct, flags: Flags): Promise<number> {
  const { mongo, say } = operator;
  const isBegun = await isErased(mongo, id);
  const open = await openAttempts(mongo, id);
  const inProgress = `${counted(open.length, 'attempt')} in progress`;
  if (open.length > 0 && flags.endOpenAttempts !== true)
    throw new Refused(`${inProgress}; pass --end-open-attempts to submit what was answered`);
  const counts = await countRows(mongo, await findPerson(mongo, id));
  if (flags.yes !== true) {
    say(`dry run: ${counted(sumOf(counts.values()), 'row')} would be erased; pass --yes to erase`);
    tellCounts(operator, counts);
    if (open.length > 0) say(`${inProgress} would be submitted first`);
    return EXIT.done;
  }
  if (!isBegun && counts.size === 0) throw new Refused('no rows about this person; nothing was erased');
  if (open.length > 0) {
    const ended = await endAttempts(mongo, open, { now: act.now, maxAttempts: operator.commandAttempts });
    say(`ended ${counted(ended, 'attempt')}`);
  }
  const result = await erasePerson(mongo, id, act);
  await operator.endStreams(id);
  return tellErasing(operator, result);
}

function tellErasing(operator: Operator, result: Erasing): number {
  const { say, fail } = operator;
  if (result.kind === 'waiting') {
    for (const [collection, rows] of result.rows) {
      const why = WHY_WAITING[collection] ?? 'other work still needs them';
      fail(`${counted(rows, 'row')} of ${collection} must wait: ${why}`);
    }
    throw new Refused('the erasure has begun and is not complete; run the same command again, or leave it to `upkeep`');
  }
  const { tombstone, already } = result;
  say(already ? 'already erased; nothing has arrived since' : 'erased');
  for (const line of receiptOf(tombstone)) say(line);
  return EXIT.done;
}

const WHY_WAITING: Readonly<Record<string, string>> = {
  attempts: 'they are in progress or wait for their grade; `examhall queues` shows the queue `grading`',
  attempt_notices: 'a worker is delivering them',
  commands: 'a worker is delivering a notice to the owner of the account',
  ai_jobs: 'the job is open; it ends by itself, or its owner cancels it',
  ai_generations: 'the charge is not settled; `examhall queues` shows the queue `settlement`',
  ai_preview_leases: 'a preview is in flight',
};

/** Returns the receipt: who erased when and why, what was deleted and pseudonymised, and what is kept. */
function receiptOf({ _id, operator, reason, erasedAt, counts }: ErasedPerson): string[] {
  const lines = [`tombstone   ${_id}`, `at          ${erasedAt?.toISOString() ?? ''}`, `operator    ${operator}`];
  lines.push(`reason      ${reason}`);
  for (const [collection, { deleted = 0, pseudonymised = 0 }] of Object.entries(counts)) {
    if (deleted > 0) lines.push(`deleted       ${`${deleted}`.padStart(9)}  ${collection}`);
    if (pseudonymised > 0) lines.push(`pseudonymised ${`${pseudonymised}`.padStart(9)}  ${collection}`);
  }
  for (const [collection, { kept }] of DECLARATIONS) {
    for (const [field, why] of Object.entries(kept)) lines.push(`kept          ${collection}.${field}: ${why}`);
  }
  return lines;
}

async function audit(
  { mongo }: Operator,
  id: string,
  act: OperatorAct,
  action: 'account.person-show' | 'account.person-export',
  detail: Readonly<Record<string, number>>,
): Promise<void> {
  await writeAudit(mongo, act, { action, subject: await tombstoneId(mongo, id), detail });
}

function sumOf(numbers: Iterable<number>): number {
  return [...numbers].reduce((sum, one) => sum + one, 0);
}

import { isSuperseded } from '#infra/mongo/classifier/generation-epochs.ts';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { tombstoneId } from '#infra/mongo/erased-persons.ts';
import { DELIVERIES, MAILBOX_OF, QUEUES } from '#infra/mongo/mailbox/commands.ts';
import type { DeadGroup } from '#infra/mongo/mailbox/dead-groups.ts';
import {
  changeDead,
  type DeadLetterChange,
  type DeadLetterFilter,
  findCommand,
  firstPlace,
  letterPage,
  markOf,
  replayOf,
} from '#infra/mongo/mailbox/dead-letters.ts';
import { type AuditRow, type OperatorAct, operatorAudit } from '#infra/mongo/operator-audit.ts';
import type { Command } from '#shared/kernel/command.ts';
import { deliveryJobState } from '#shared/notification/delivery.ts';
import { type DeadActName, DONE_WORDS } from '#shared/operations/bulk-act.ts';
import { letterCursor, letterView, readLetterCursor } from '#shared/operations/dead-letter.ts';

/** An act on dead letters, as an operator orders it. */
export interface DeadOrder {
  act: DeadActName;
  /** Consent to charge answers that no request returns any longer. */
  chargeSuperseded: boolean;
}

/** The result for one letter. */
export interface ActRow {
  id: string;
  queue: string;
  cause: string;
  outcome: 'dry run' | 'done' | 'skipped';
  why: string;
}

/** The reason why a replay skips a superseded settlement. Each surface states how it takes the consent. */
export const NOT_CHARGED = 'superseded: a replay needs consent to charge an answer that no request returns';
const WILL_CHARGE = 'superseded: charges an answer that no request returns';

/** Returns true if a replay of the letter would charge an answer that no request returns any longer. */
async function wouldCharge(mongo: Mongo, { queue, subject }: Command): Promise<boolean> {
  return queue === 'settlement' && (await isSuperseded(mongo, subject));
}

/** Returns the change that an act makes to a letter, or null if the act is refused because the settlement is superseded. */
export async function decideOn(mongo: Mongo, order: DeadOrder, letter: Command): Promise<DeadLetterChange | null> {
  if (order.act !== 'replay') return markOf(mongo, letter, order.act === 'drop' ? 'DROPPED' : 'ACKNOWLEDGED');
  const chargeSuperseded = await wouldCharge(mongo, letter);
  return chargeSuperseded && !order.chargeSuperseded ? null : replayOf(mongo, letter, { chargeSuperseded });
}

/** Does one act on each letter, with an audit line of its own. Without `by` it only returns what would be done. */
export async function actOnLetters(
  mongo: Mongo,
  order: DeadOrder,
  letters: readonly Command[],
  by: OperatorAct | null,
): Promise<ActRow[]> {
  const rows: ActRow[] = [];
  for (const letter of letters) {
    const row = { id: letter._id, queue: letter.queue, cause: letter.lastError?.message ?? '' };
    const change = await decideOn(mongo, order, letter);
    if (change === null) rows.push({ ...row, outcome: 'skipped', why: NOT_CHARGED });
    else if (by === null) {
      const why = change.line.chargeSuperseded === true ? WILL_CHARGE : '';
      rows.push({ ...row, outcome: 'dry run', why });
    } else {
      const isDone = await changeDead(mongo, letter, change, by);
      rows.push({ ...row, outcome: isDone ? 'done' : 'skipped', why: isDone ? '' : skippedBecause(order) });
    }
  }
  return rows;
}

function skippedBecause({ act }: DeadOrder): string {
  return act === 'replay' ? 'not dead' : `not dead, or already ${DONE_WORDS[act]}`;
}

/** The result of an act on chosen letters, or the preview of an act on all letters of a filter. */
export interface ActResult {
  dryRun: boolean;
  rows: ActRow[];
  /** Ids that no command has. */
  unknown: string[];
  /** Letters that were changed; in a dry run, those that would be. */
  counted: number;
  /** True if there are more letters than were counted. */
  more: boolean;
  /** Superseded settlements, which a replay without consent skips. */
  superseded: number;
  groups: DeadGroup[];
}

/** Acts on the commands with these ids; see `actOnLetters`. */
export async function actOnIds(
  mongo: Mongo,
  order: DeadOrder,
  ids: readonly string[],
  by: OperatorAct | null,
): Promise<ActResult> {
  const found = await Promise.all(ids.map((id) => findCommand(mongo, id)));
  const letters = found.filter((command) => command !== null);
  const unknown = ids.filter((_, index) => found[index] === null);
  return { ...resultOf(await actOnLetters(mongo, order, letters, by), by === null), unknown };
}

/** Returns the result of an act on chosen letters that all exist. */
export function resultOf(rows: ActRow[], dryRun: boolean): ActResult {
  const counted = rows.filter(({ outcome }) => outcome !== 'skipped').length;
  const superseded = rows.filter(({ why }) => why === NOT_CHARGED).length;
  return { dryRun, rows, unknown: [], counted, more: false, superseded, groups: [] };
}

/** Returns the result of the dry run of a bulk act. */
export function ofPreview(preview: Pick<ActResult, 'counted' | 'more' | 'superseded' | 'groups'>): ActResult {
  return { dryRun: true, rows: [], unknown: [], ...preview };
}

/** Returns a command with the state of its delivery and the warning of a superseded settlement, or null if it does not exist. */
export async function findLetter(
  mongo: Mongo,
  id: string,
  now: number,
): Promise<{ command: Command; state: string | null; superseded: boolean } | null> {
  const command = await findCommand(mongo, id);
  if (command === null) return null;
  return { command, state: stateOf(command, now), superseded: await wouldCharge(mongo, command) };
}

/** Returns the state of a delivery as its routes name it, for example DEAD_LETTERED. Other commands have a status only. */
function stateOf({ queue, status, lockedUntil }: Command, now: number): string | null {
  if (MAILBOX_OF[queue] !== DELIVERIES) return null;
  return deliveryJobState(status, lockedUntil !== null && lockedUntil.getTime() > now);
}

/** Acts that one letter shows. */
const MAX_ACTS = 50;

/** Returns the acts of operators on a command, newest first. */
export async function actsOnLetter(mongo: Mongo, { _id, subject }: Command): Promise<AuditRow[]> {
  const options = { hint: 'subject_in_pages', sort: { at: -1 }, limit: MAX_ACTS, maxTimeMS: QUERY_LIMIT_MS } as const;
  const rows = await operatorAudit(mongo)
    .find({ subject: { $in: [subject, await tombstoneId(mongo, subject)] } }, options)
    .toArray();
  return rows.filter((row) => 'commandId' in row && row.commandId === _id);
}

/** Letters of a page, if the caller names no limit. */
export const PAGE_LETTERS = 100;

/** Returns a page of single letters, without their bodies. Null: no page with this filter has named the cursor. */
export async function readLetters(
  mongo: Mongo,
  wanted: DeadLetterFilter,
  { cursor, limit }: { cursor: string | null; limit: number },
) {
  const from = cursor === null ? firstPlace(wanted) : readLetterCursor(cursor, QUEUES);
  if (from === null || (wanted.queue !== undefined && from.queue !== wanted.queue)) return null;
  const { letters, next } = await letterPage(mongo, wanted, from, { limit });
  return { letters: letters.map(letterView), nextCursor: next === null ? null : letterCursor(next) };
}

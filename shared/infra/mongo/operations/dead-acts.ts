import { isSuperseded } from '#infra/mongo/classifier/generation-epochs.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { changeDead, type DeadLetterChange, findCommand, markOf, replayOf } from '#infra/mongo/mailbox/dead-letters.ts';
import type { OperatorAct } from '#infra/mongo/operator-audit.ts';
import type { Command } from '#shared/kernel/command.ts';
import { type DeadActName, DONE_WORDS } from '#shared/operations/bulk-act.ts';

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

const REFUSED = 'superseded; pass --charge-superseded to charge an answer that no request returns';
const WILL_CHARGE = 'superseded: charges an answer that no request returns';

/** Returns true if a replay of the letter would charge an answer that no request returns any longer. */
export async function wouldCharge(mongo: Mongo, { queue, subject }: Command): Promise<boolean> {
  return queue === 'settlement' && (await isSuperseded(mongo, subject));
}

/** Returns the change that an act makes to a letter, or null if the act is refused because the settlement is superseded. */
export async function decideOn(mongo: Mongo, order: DeadOrder, letter: Command): Promise<DeadLetterChange | null> {
  if (order.act !== 'replay') return markOf(letter, order.act === 'drop' ? 'DROPPED' : 'ACKNOWLEDGED');
  const chargeSuperseded = await wouldCharge(mongo, letter);
  return chargeSuperseded && !order.chargeSuperseded ? null : replayOf(letter, { chargeSuperseded });
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
    if (change === null) rows.push({ ...row, outcome: 'skipped', why: REFUSED });
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

/** Returns the commands with these ids, and the ids that no command has. */
export async function findLetters(
  mongo: Mongo,
  ids: readonly string[],
): Promise<{ letters: Command[]; unknown: string[] }> {
  const found = await Promise.all(ids.map((id) => findCommand(mongo, id)));
  return {
    letters: found.filter((command) => command !== null),
    unknown: ids.filter((_, index) => found[index] === null),
  };
}

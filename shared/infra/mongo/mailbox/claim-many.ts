import { type ClientSession, MongoBulkWriteError } from 'mongodb';
import { catchUp, readIn } from '#infra/mongo/causal-read.ts';
import { BY_ID, type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { isOutage } from '#infra/mongo/faults.ts';
import { gather, type Part } from '#infra/process/gather.ts';
import type { Command, CommandRef, Queue } from '#shared/kernel/command.ts';
import { type Claim, claimCommand, claimOf, claimUpdate, type Holder } from './claim.ts';
import { MAILBOX_OF, MAILBOXES } from './commands.ts';
import { mailboxOf } from './mailbox.ts';

/** A claim of one command, in the session of its run. */
type HeldIn = Holder & { session: ClientSession };

/**
 * Claims a command as `claimCommand` does. Claims of the same moment share their MongoDB commands. An abandoned command is
 * claimed alone: a transaction of its dead worker may still lock it, and all others would wait.
 */
export type ClaimCommand = <Q extends Queue>(
  ref: CommandRef<Q> & { abandoned?: boolean },
  holder: HeldIn,
) => Promise<Claim<Q>>;

/** Opens the claims of a process. */
export function openClaims(mongo: Mongo): ClaimCommand {
  const ofMailbox = new Map(
    MAILBOXES.map((name) => [name, gather((wanted: readonly Wanted[]) => claimMany(mongo, wanted))]),
  );
  return <Q extends Queue>(ref: CommandRef<Q> & { abandoned?: boolean }, holder: HeldIn) => {
    if (ref.abandoned === true) return claimCommand(mongo, ref, holder);
    const claim = ofMailbox.get(MAILBOX_OF[ref.queue]) as (wanted: Wanted) => Promise<Claim<Q>>;
    return claim({ ref, holder });
  };
}

interface Wanted {
  readonly ref: CommandRef;
  readonly holder: HeldIn;
}

/**
 * Claims commands of one mailbox: one bulk of the same guarded updates, then one read. The stamp of each update shows whose claim stands,
 * so nothing depends on the counts of the bulk. The driver repeats it after a lost reply like a single update, and no update is made twice.
 */
async function claimMany(mongo: Mongo, wanted: readonly Wanted[]): Promise<Part<Claim<Queue>>[]> {
  const [first, ...others] = wanted;
  if (first === undefined) return [];
  const alone = ({ ref, holder }: Wanted) => claimCommand(mongo, ref, holder);
  if (others.length === 0) return [alone(first)];

  const { session } = first.holder;
  const updates = wanted.map(({ ref, holder }) => claimUpdate(ref, holder));
  const models = wanted.map(({ ref: { _id, key } }, index) => ({
    updateOne: { filter: { _id, key }, update: updates[index]?.pipeline ?? [] },
  }));
  const mailbox = mailboxOf<Queue>(mongo, first.ref.queue);
  let refused = false;
  try {
    await mailbox.bulkWrite(models, { session, ordered: false, maxTimeMS: QUERY_LIMIT_MS });
  } catch (error) {
    if (!(error instanceof MongoBulkWriteError) || isOutage(error)) throw error;
    refused = true;
  }
  const keys = { _id: { $in: wanted.map(({ ref }) => ref._id) }, key: { $in: wanted.map(({ ref }) => ref.key) } };
  const found = await mailbox.find(keys, { ...readIn(session), hint: BY_ID }).toArray();
  for (const { holder } of others) catchUp(holder.session, session);

  const after = new Map(found.map((command) => [command._id, command as Command]));
  return wanted.map((one, index) => {
    const update = updates[index];
    if (update === undefined) throw new Error('a claim without its update');
    const claim = claimOf(update, (after.get(one.ref._id) ?? null) as never);
    // The server refused a statement of the bulk. The single claim shows which one, and why.
    return claim.kind === 'refused' && refused ? alone(one) : claim;
  });
}

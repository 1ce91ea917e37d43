import type { Mongo } from '#infra/mongo/connect.ts';
import { newStamp } from '#infra/mongo/guarded-update.ts';
import type { OperatorAct } from '#infra/mongo/operator-audit.ts';
import type { Account, StoredPassword } from '#shared/auth/account.ts';
import { accounts, throttles } from './collections.ts';
import { endOtherSessions } from './end-other-sessions.ts';
import { actAsOperator } from './operator-act.ts';
import { noteSecurityEvent } from './security-events.ts';
import { throttleKey } from './throttle.ts';

/**
 * An operator gives an account a password: whoever is signed in is signed out, and who was kept out by guesses is let in, in
 * one commit. Gives how many sessions that ended.
 */
export async function setPassword(
  mongo: Mongo,
  account: Pick<Account, '_id' | 'email'>,
  password: StoredPassword,
  act: OperatorAct,
): Promise<number> {
  const accountId = account._id;
  return actAsOperator(mongo, act, async (session) => {
    await accounts(mongo).updateOne(
      { _id: accountId },
      { $set: { password, stamp: newStamp() }, $currentDate: { updatedAt: true } },
      { session },
    );
    const ended = await endOtherSessions(mongo, { accountId, keep: null, reason: 'OPERATOR' }, session);
    await throttles(mongo).deleteOne({ _id: throttleKey(account.email) }, { session });
    const detail = { ended };
    const event = { accountId, sessionId: null, type: 'PASSWORD_SET', metadata: detail } as const;
    await noteSecurityEvent(mongo, event, act.now, session);
    return { result: ended, line: { action: 'account.set-password', subject: accountId, detail } };
  });
}

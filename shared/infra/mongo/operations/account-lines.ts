import { accounts, securityEvents, sessions, throttles } from '#infra/mongo/auth/collections.ts';
import { throttleKey } from '#infra/mongo/auth/throttle.ts';
import { COMMANDS } from '#infra/mongo/mailbox/commands.ts';
import { reason, span, type Why } from '#shared/operations/reasons.ts';
import { traceLine } from '#shared/operations/timeline.ts';
import { addCommand, BOUND, CAP, capped, commandsOf, type Reading } from './reading.ts';

/** Adds an account, its sessions, its login events and the notices to its owner. Returns false if there is no account. */
export async function addAccount(reading: Reading, id: string): Promise<boolean> {
  const { mongo, lines, cluster } = reading;
  const account = await accounts(mongo).findOne(
    { _id: id },
    { ...BOUND, projection: { status: 1, role: 1, email: 1, createdAt: 1, updatedAt: 1 } },
  );
  const [events, own, commands, throttle] = await Promise.all([
    securityEvents(mongo)
      .find({ accountId: id }, { ...BOUND, sort: { at: -1 }, limit: CAP + 1 })
      .toArray(),
    sessions(mongo)
      .find({ accountId: id }, { ...BOUND, projection: { userAgent: 0 }, limit: CAP + 1 })
      .toArray(),
    commandsOf(reading, [id], [COMMANDS]),
    account === null ? null : throttles(mongo).findOne({ _id: throttleKey(account.email) }, BOUND),
  ]);
  if (account !== null) {
    const { createdAt: at, updatedAt: endedAt, status: state, role: what } = account;
    lines.push(traceLine({ at, kind: 'account', id, state, what, endedAt, ...whyRefused(state, id) }));
  }
  for (const { _id, at, type: what, sessionId: about } of capped(reading, 'login', events))
    lines.push(traceLine({ at, kind: 'login', id: _id, state: 'STORED', what, about }));
  for (const row of capped(reading, 'session', own)) addSession(reading, row);
  for (const command of commands) addCommand(reading, command);
  const blockedMs = (throttle?.blockedUntil?.getTime() ?? 0) - cluster.now;
  if (throttle?.lastTryAt != null && blockedMs > 0) {
    const why = reason(
      'LOGIN_LOCKED',
      `wrong passwords; logins are refused for ${span(blockedMs)}`,
      '`examhall account unlock`',
    );
    const about = { about: id, nextAt: throttle.blockedUntil, effect: 'login refused', reason: why } as const;
    lines.push(traceLine({ at: throttle.lastTryAt, kind: 'login', id: `${id}:lock`, state: 'LOCKED', ...about }));
  }
  return account !== null || events.length > 0;
}

function whyRefused(status: string, id: string): Why {
  const effect = 'account refused';
  if (status === 'SUSPENDED') {
    const text = 'an operator has suspended the account; its requests are refused with AUTH_ACCOUNT_DISABLED';
    return { effect, reason: reason('ACCOUNT_SUSPENDED', text, `\`examhall account status\` of ${id}`) };
  }
  if (status === 'DELETED') return { effect, reason: reason('ACCOUNT_DELETED', 'the account is deleted, for ever') };
  return {};
}

function addSession(
  { lines, cluster }: Reading,
  row: {
    _id: string;
    accountId: string;
    createdAt: Date;
    endedAt: Date | null;
    expiresAt: Date;
    endReason: string | null;
  },
): void {
  const { _id: id, createdAt: at, accountId: about, endedAt, expiresAt, endReason } = row;
  const isExpired = endedAt === null && expiresAt.getTime() <= cluster.now;
  const state = endedAt !== null ? 'ENDED' : isExpired ? 'EXPIRED' : 'LIVE';
  lines.push(
    traceLine({ at, kind: 'session', id, state, what: endReason, about, endedAt: isExpired ? expiresAt : endedAt }),
  );
}

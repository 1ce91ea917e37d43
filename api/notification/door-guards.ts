import { ACTOR, identity, organization, type Role, role } from '#api/http/guards/identity.ts';
import { adminOrSender, knownSender } from '#api/http/guards/senders.ts';
import type { Guard } from '#api/route.ts';
import { PRODUCERS, type Sender } from '#shared/notification/event.ts';
import type { NotificationDeps } from './deps.ts';

/** Whoever has one of these roles; any role when none is named. */
export function actors(...roles: Role[]): Guard[] {
  return [identity(ACTOR), organization(), role(...roles)];
}

/** Only these services, each with its own token. */
export function senders(deps: Pick<NotificationDeps, 'senderTokens'>, names: readonly Sender[]): Guard[] {
  return [knownSender(sendersOf(deps, names)), organization()];
}

/** An ADMIN, or a producer with its own token. */
export function makers(deps: Pick<NotificationDeps, 'senderTokens'>): Guard[] {
  return [adminOrSender(ACTOR, sendersOf(deps, PRODUCERS))];
}

function sendersOf({ senderTokens }: Pick<NotificationDeps, 'senderTokens'>, names: readonly Sender[]) {
  return {
    senders: names,
    tokens: senderTokens,
    unauthorizedCode: 'NOTIFICATION_INTERNAL_UNAUTHORIZED',
    unconfiguredCode: 'NOTIFICATION_INTERNAL_TOKEN_NOT_CONFIGURED',
  } as const;
}

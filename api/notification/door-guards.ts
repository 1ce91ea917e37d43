import {
  ACTOR as ACTOR_HEADERS,
  type IdentityHeaders,
  identity,
  organization,
  type Role,
  role,
  roleOrNone,
} from '#api/http/guards/identity.ts';
import { adminOrSender, knownSender } from '#api/http/guards/senders.ts';
import type { Guard, Tag } from '#api/route.ts';
import type { Sender } from '#shared/notification/event.ts';
import type { NotificationDeps } from './deps.ts';

/** Users change preferences, and so do the links of their e-mails. */
export const PREFERENCES: Tag = {
  name: 'Notification: preferences',
  description: 'Types and channels that a user disables, and mutes.',
};

/** Delivery attempts are recorded by producers and listed by users. */
export const DELIVERIES: Tag = {
  name: 'Notification: deliveries',
  description: 'Delivery attempts over channels outside the inbox, for diagnosis.',
};

/** A caller without a role is accepted as a plain user, with no right that requires a role. */
const ACTOR: IdentityHeaders = { ...ACTOR_HEADERS, roleMayBeAbsent: true };

/** Admits every user: a role that this service does not know is that of a plain user. */
export function users(): Guard[] {
  return [identity(ACTOR), organization()];
}

/** Admits users without a role or with one of these roles. */
export function usersAs(...roles: [Role, ...Role[]]): Guard[] {
  return [identity(ACTOR), organization(), roleOrNone(...roles)];
}

/** Admits only actors with one of these roles. */
export function actors(...roles: [Role, ...Role[]]): Guard[] {
  return [identity(ACTOR), organization(), role(...roles)];
}

/** Admits only these services, each with its own token. */
export function senders(deps: Pick<NotificationDeps, 'senderTokens'>, names: readonly Sender[]): Guard[] {
  return [knownSender(sendersOf(deps, names)), organization()];
}

/** Admits an ADMIN, or one of these services with its own token. */
export function adminOr(deps: Pick<NotificationDeps, 'senderTokens'>, names: readonly Sender[]): Guard[] {
  return [adminOrSender(ACTOR, sendersOf(deps, names))];
}

function sendersOf({ senderTokens }: Pick<NotificationDeps, 'senderTokens'>, names: readonly Sender[]) {
  return {
    senders: names,
    tokens: senderTokens,
    unauthorizedCode: 'NOTIFICATION_INTERNAL_UNAUTHORIZED',
    unconfiguredCode: 'NOTIFICATION_INTERNAL_TOKEN_NOT_CONFIGURED',
  } as const;
}

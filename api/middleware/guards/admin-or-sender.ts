import type { Guard, Head } from '#api/route.ts';
import { type IdentityHeaders, identity } from './identity.ts';
import { type KnownSenders, senderCheck, senderHeaders } from './known-sender.ts';
import { organization } from './organization.ts';
import { role } from './role.ts';

/**
 * Lets an ADMIN pass, or a known service with its own token. Whoever shows internal credentials is judged by them alone: wrong ones
 * are not made good by identity headers, and right ones need none, nor the gateway's token. Either may name an organization, which is
 * identity and judged as such: before the role. Fills `identity.actor` or `identity.sender`, and `identity.organizationId`.
 */
export function adminOrSender(names: IdentityHeaders, known: KnownSenders): Guard {
  const check = senderCheck(known);
  const ofCall = organization();
  const admin = [identity(names), ofCall, role('ADMIN')];
  return {
    name: 'adminOrSender',
    roles: ['ADMIN'],
    codes: [known.unconfiguredCode, known.unauthorizedCode, ...admin.flatMap((guard) => guard.codes)],
    headers: [
      ...senderHeaders(known, false),
      ...admin.flatMap((guard) => guard.headers.map((header) => ({ ...header, required: false }))),
    ],
    trustsIdentity: (head) => !showsCredentials(head),
    check(head, found) {
      if (showsCredentials(head)) {
        const sender = check(head);
        if ('rejected' in sender) return sender;
        found.sender = sender.sender;
        return ofCall.check(head, found);
      }
      for (const guard of admin) {
        const refused = guard.check(head, found);
        if (refused !== undefined) return refused;
      }
      return undefined;
    },
  };
}

function showsCredentials({ headers }: Head): boolean {
  return headers['x-internal-service'] !== undefined || headers['x-internal-token'] !== undefined;
}

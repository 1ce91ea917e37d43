import type { Guard } from '#api/route.ts';
import { singleHeader } from './single-header.ts';

/** Lower-case names of the headers in which a service's gateway passes on who calls. */
export interface IdentityHeaders {
  id: string;
  role: string;
}

const USER: IdentityHeaders = { id: 'x-user-id', role: 'x-user-role' };
export const ACTOR: IdentityHeaders = { id: 'x-actor-id', role: 'x-actor-role' };
/** What an identity header may hold. */
export const PLAIN_IDENTITY = /^[A-Za-z0-9._:@-]{1,128}$/;

/** Demands well-formed identity headers, each sent once, and fills `identity.actor`. Which role may, `role` judges. */
export function identity(names: IdentityHeaders = USER): Guard {
  return {
    name: 'identity',
    trustsIdentity: 'always',
    codes: ['UNAUTHENTICATED'],
    headers: [
      { name: names.id, required: true, description: 'Id of the caller, set by the gateway', example: 'student-1' },
      { name: names.role, required: true, description: 'Role of the caller, set by the gateway', example: 'STUDENT' },
    ],
    check(head, known) {
      const id = singleHeader(head, names.id);
      const role = singleHeader(head, names.role);
      if (id === undefined || role === undefined || !PLAIN_IDENTITY.test(id) || !PLAIN_IDENTITY.test(role)) {
        return { rejected: 'UNAUTHENTICATED' };
      }
      known.actor = { id, role };
      return undefined;
    },
  };
}

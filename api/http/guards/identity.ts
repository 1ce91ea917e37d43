import { singleHeader } from '#api/http/exchange.ts';
import type { Guard, Head, Identity } from '#api/route.ts';
import type { Rejection } from '#shared/kernel/errors.ts';

/** Lower-case names of the headers in which a service's gateway passes on who calls. */
export interface IdentityHeaders {
  id: string;
  role: string;
}

const USER: IdentityHeaders = { id: 'x-user-id', role: 'x-user-role' };
export const ACTOR: IdentityHeaders = { id: 'x-actor-id', role: 'x-actor-role' };

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
      const id = plainHeader(head, names.id);
      const role = plainHeader(head, names.role);
      if (id === undefined || role === undefined) return { rejected: 'UNAUTHENTICATED' };
      known.actor = { id, role };
      return undefined;
    },
  };
}

const ROLES = ['STUDENT', 'TEACHER', 'PARENT', 'ADMIN'] as const;
export type Role = (typeof ROLES)[number];

/** Lets only these roles pass, matched exactly. Stands behind `identity`; without arguments any known role passes. */
export function role(...allowed: Role[]): Guard {
  const passing = new Set<string>(allowed.length === 0 ? ROLES : allowed);
  return {
    name: 'role',
    roles: [...passing],
    codes: ['FORBIDDEN'],
    headers: [],
    check(_head, known) {
      return known.actor !== undefined && passing.has(known.actor.role) ? undefined : { rejected: 'FORBIDDEN' };
    },
  };
}

const ORGANIZATION = 'x-organization-id';

/** Takes the organization that the gateway may name into `identity.organizationId`; a malformed one is an identity fault. */
export function organization(): Guard {
  return {
    name: 'organization',
    codes: ['UNAUTHENTICATED'],
    headers: [
      {
        name: ORGANIZATION,
        required: false,
        example: 'org-1',
        description: 'Organization of the caller, set by the gateway: the default of new objects, never a filter',
      },
    ],
    check: (head, known) => (head.headers[ORGANIZATION] === undefined ? undefined : takeOrganization(head, known)),
  };
}

/** Demands the organization in which the caller acts, sent once, and fills `identity.organizationId`: what is another's is not there. */
export function scope(): Guard {
  return {
    name: 'scope',
    trustsIdentity: 'always',
    codes: ['UNAUTHENTICATED'],
    headers: [
      {
        name: ORGANIZATION,
        required: true,
        example: 'org-1',
        description: 'Organization in which the caller acts, set by the gateway',
      },
    ],
    check: takeOrganization,
  };
}

function takeOrganization(head: Head, known: Identity): Rejection | undefined {
  const id = plainHeader(head, ORGANIZATION);
  if (id === undefined) return { rejected: 'UNAUTHENTICATED' };
  known.organizationId = id;
  return undefined;
}

/** The characters and the length that an identity header may have. */
const PLAIN_IDENTITY = /^[A-Za-z0-9._:@-]{1,128}$/;

/** The value of an identity header, or undefined if it is missing, malformed or was sent twice. */
function plainHeader(head: Head, name: string): string | undefined {
  const value = singleHeader(head, name);
  return value !== undefined && PLAIN_IDENTITY.test(value) ? value : undefined;
}

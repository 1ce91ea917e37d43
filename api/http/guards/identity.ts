import { singleHeader } from '#api/http/exchange.ts';
import type { Guard, Head, Identity, SecurityScheme } from '#api/route.ts';
import type { FaultDetail, Rejection } from '#shared/kernel/errors.ts';
import { isPersonId } from '#shared/kernel/ids.ts';

/** Headers in which a service's gateway passes on the caller. */
export interface IdentityHeaders {
  /** Lower-case names. */
  id: string;
  role: string;
  schemes: { id: SecurityScheme; role: SecurityScheme };
  /** True if a caller without a role is an ordinary user. Default false: every caller needs a role. */
  roleMayBeAbsent?: boolean;
}

export const USER: IdentityHeaders = {
  id: 'x-user-id',
  role: 'x-user-role',
  schemes: {
    id: {
      name: 'userId',
      header: 'X-User-Id',
      tells: 'identity',
      description:
        'Id of the caller, set by the gateway after it has verified an access token: 1-128 characters of `A-Za-z0-9._:@+|/=~{}-`, such as `student-1`. The attempt service and the routes of operators read it.',
    },
    role: {
      name: 'userRole',
      header: 'X-User-Role',
      tells: 'role',
      description:
        'Role of the caller, set by the gateway: `STUDENT`, `TEACHER`, `PARENT` or `ADMIN`, spelled exactly so. An operation lists the roles of which one is required.',
    },
  },
};
export const ACTOR: IdentityHeaders = {
  id: 'x-actor-id',
  role: 'x-actor-role',
  schemes: {
    id: {
      name: 'actorId',
      header: 'X-Actor-Id',
      tells: 'identity',
      description:
        'Id of the caller, set by the gateway after it has verified an access token: 1-128 characters of `A-Za-z0-9._:@+|/=~{}-`, such as `teacher-1`. The notification service and the AI classifier read it.',
    },
    role: {
      name: 'actorRole',
      header: 'X-Actor-Role',
      tells: 'role',
      description:
        'Role of the caller, set by the gateway: `STUDENT`, `TEACHER`, `PARENT` or `ADMIN`, spelled exactly so. An operation lists the roles of which one is required. Users of the notification service need none.',
    },
  },
};

/** Role of an actor for whom the gateway sent no role. No header can carry it, because an empty header is malformed. */
const NO_ROLE = '';

/**
 * Requires well-formed identity headers, each sent once, and fills `identity.actor`. The guard `role` decides which roles
 * pass. If the role may be absent, an actor without one gets an empty role, which no list of roles contains.
 */
export function identity(names: IdentityHeaders = USER): Guard {
  const { roleMayBeAbsent = false, schemes } = names;
  return {
    name: 'identity',
    trustsIdentity: 'always',
    proves: 'identity',
    codes: ['UNAUTHENTICATED'],
    headers: [],
    proofs: [
      [{ scheme: schemes.id }, { scheme: schemes.role }],
      ...(roleMayBeAbsent ? [[{ scheme: schemes.id }]] : []),
    ],
    check(head, known) {
      const id = plainHeader(head, names.id);
      const isAbsent = roleMayBeAbsent && head.headers[names.role] === undefined;
      const role = isAbsent ? NO_ROLE : plainHeader(head, names.role);
      if (id === undefined || role === undefined) {
        const wanted = [...(id === undefined ? [names.id] : []), ...(role === undefined ? [names.role] : [])];
        return { rejected: 'UNAUTHENTICATED', details: wanted.map(identityFault) };
      }
      known.actor = { id, role };
      known.roleHeader = names.role;
      return undefined;
    },
  };
}

const ROLES = ['STUDENT', 'TEACHER', 'PARENT', 'ADMIN'] as const;
export type Role = (typeof ROLES)[number];

/** Requires one of these roles, matched exactly; without arguments any known role. Must follow `identity`. */
export function role(...allowed: Role[]): Guard {
  const named = allowed.length === 0 ? ROLES : allowed;
  return roleGuard(named, new Set(named));
}

/** Requires one of these roles, or no role at all. Must follow `identity`. */
export function roleOrNone(...allowed: [Role, ...Role[]]): Guard {
  return { ...roleGuard(allowed, new Set([...allowed, NO_ROLE])), admitsNoRole: true };
}

function roleGuard(named: readonly Role[], passing: ReadonlySet<string>): Guard {
  return {
    name: 'role',
    roles: named,
    codes: ['FORBIDDEN'],
    headers: [],
    check(_head, { actor, roleHeader = USER.role }) {
      if (actor !== undefined && passing.has(actor.role)) return undefined;
      return { rejected: 'FORBIDDEN', details: [headerFault(roleHeader, `must be one of ${named.join(', ')}`)] };
    },
  };
}

/**
 * Accepts the identity of a person in a service's call, and requires one of these roles. If both headers are missing, the
 * service acts for itself. One header alone is refused as malformed. Fills `identity.actor`.
 */
export function optionalIdentity(...allowed: Role[]): Guard {
  const whole = [identity(), role(...allowed)];
  return {
    name: 'optionalIdentity',
    codes: whole.flatMap((guard) => guard.codes),
    headers: [],
    proofs: [[], [{ scheme: USER.schemes.id }, { scheme: USER.schemes.role, values: allowed }]],
    trustsIdentity: (head) => namesCaller(head, USER),
    check(head, known) {
      if (!namesCaller(head, USER)) return undefined;
      for (const guard of whole) {
        const refused = guard.check(head, known);
        if (refused !== undefined) return refused;
      }
      return undefined;
    },
  };
}

/** Returns true if a request has one of the headers that identify a person. */
export function namesCaller({ headers }: Head, names: IdentityHeaders): boolean {
  return headers[names.id] !== undefined || headers[names.role] !== undefined;
}

const ORGANIZATION = 'x-organization-id';

const ORGANIZATION_SCHEME: SecurityScheme = {
  name: 'organizationId',
  header: 'X-Organization-Id',
  tells: 'identity',
  description:
    'Organization in which the caller acts, set by the gateway: 1-128 characters of `A-Za-z0-9._:@+|/=~{}-`, such as `org-1`. The AI classifier requires it and hides objects of every other organization. Elsewhere it is an optional header.',
};

/** Fills `identity.organizationId` if the gateway names an organization. A malformed one is an identity fault. */
export function organization(): Guard {
  return {
    name: 'organization',
    codes: ['UNAUTHENTICATED'],
    headers: [
      {
        name: ORGANIZATION,
        required: false,
        example: 'org-1',
        description: 'Organization of the caller, set by the gateway: the default for new objects, never a filter',
      },
    ],
    check: (head, known) => (head.headers[ORGANIZATION] === undefined ? undefined : readOrganization(head, known)),
  };
}

/** Requires the caller's organization, sent once. Fills `identity.organizationId`; handlers hide objects of any other. */
export function scope(): Guard {
  return {
    name: 'scope',
    trustsIdentity: 'always',
    proves: 'identity',
    codes: ['UNAUTHENTICATED'],
    headers: [],
    proofs: [[{ scheme: ORGANIZATION_SCHEME }]],
    check: readOrganization,
  };
}

function readOrganization(head: Head, known: Identity): Rejection | undefined {
  const id = plainHeader(head, ORGANIZATION);
  if (id === undefined) return { rejected: 'UNAUTHENTICATED', details: [identityFault(ORGANIZATION)] };
  known.organizationId = id;
  return undefined;
}

/** Returns the fault of a header, which names what is wanted and never what was sent. */
export function headerFault(name: string, message: string): FaultDetail {
  return { path: `/headers/${name}`, message };
}

function identityFault(name: string): FaultDetail {
  return headerFault(name, 'is required once: 1-128 characters of `A-Za-z0-9._:@+|/=~{}-`');
}

/** Returns the value of an identity header, or undefined if it is missing, malformed or repeated. */
function plainHeader(head: Head, name: string): string | undefined {
  const value = singleHeader(head, name);
  return isPersonId(value) ? value : undefined;
}

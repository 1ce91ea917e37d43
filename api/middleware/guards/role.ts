import type { Guard } from '#api/route.ts';

export const ROLES = ['STUDENT', 'TEACHER', 'PARENT', 'ADMIN'] as const;
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

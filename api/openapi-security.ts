import type { Guard, Proof, Route, SecurityScheme } from './route.ts';

// Which proofs a request needs, for OpenAPI: the alternatives of all guards of a route, joined.

/** One alternative of an operation: a request must carry all of its proofs. Empty: a request passes without a proof. */
export type Requirement = readonly Proof[];

/**
 * Returns the alternatives of a route, in the order of its guards. Any one of them admits a request. `[]` means that the route
 * checks no proof.
 */
export function requirementsOf({ guards }: Pick<Route, 'guards'>): Requirement[] {
  const vouching = guards.filter((guard) => guard.vouches === true).flatMap((guard) => guard.proofs?.[0] ?? []);
  const joined = guards.reduce<Requirement[]>(withGuard, [[]]);
  const vouched = joined.map((proofs) => (proofs.some(isIdentity) ? [...vouching, ...proofs] : proofs));
  return vouched.some((proofs) => proofs.length > 0) ? vouched : [];
}

function withGuard(before: Requirement[], guard: Guard): Requirement[] {
  if (guard.vouches === true) return before;
  if (guard.proofs !== undefined) {
    const alternatives = guard.proofs;
    return before.flatMap((proofs) => alternatives.map((added) => [...proofs, ...added]));
  }
  const { roles } = guard;
  return roles === undefined
    ? before
    : before.flatMap((proofs) => withRoles(proofs, roles, guard.admitsNoRole === true));
}

/** Returns the proofs with the permitted roles, or nothing if they name no role and a role is required. */
function withRoles(proofs: Requirement, roles: readonly string[], admitsNoRole: boolean): Requirement[] {
  const hasRole = proofs.some(({ scheme }) => scheme.tells === 'role');
  if (!hasRole) return admitsNoRole ? [proofs] : [];
  return [proofs.map((proof) => (proof.scheme.tells === 'role' ? { ...proof, values: roles } : proof))];
}

function isIdentity({ scheme }: Proof): boolean {
  return scheme.tells !== undefined;
}

/** Returns the `security` of an operation. A list beside a scheme holds the roles or the senders of which one is required. */
export function securityOf(requirements: readonly Requirement[]): Record<string, readonly string[]>[] {
  return requirements.map((proofs) =>
    Object.fromEntries(proofs.map(({ scheme, values }) => [scheme.name, values ?? []])),
  );
}

/** Returns the alternatives in words, for people. */
export function accessText(requirements: readonly Requirement[]): string {
  if (requirements.length === 0) return 'Access: any caller.';
  const texts = requirements.map((proofs) => (proofs.length === 0 ? 'no header' : proofs.map(proofText).join(', ')));
  return texts.length === 1
    ? `Access: ${texts[0]}.`
    : `Access, one of:\n\n${texts.map((text) => `- ${text}`).join('\n')}`;
}

function proofText({ scheme, values = [] }: Proof): string {
  const header = scheme.header === 'bearer' ? `\`Authorization: Bearer\` (${scheme.name})` : `\`${scheme.header}\``;
  return values.length === 0 ? header : `${header} of ${values.map((value) => `\`${value}\``).join(' or ')}`;
}

/** Returns the security schemes that the routes use, by name. */
export function securitySchemesOf(routes: readonly Route[]): Record<string, object> {
  const used = new Map<string, SecurityScheme>();
  for (const { scheme } of routes.flatMap(requirementsOf).flat()) used.set(scheme.name, scheme);
  const sorted = [...used.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  return Object.fromEntries(sorted.map((scheme) => [scheme.name, schemeObject(scheme)]));
}

function schemeObject({ header, description }: SecurityScheme): object {
  if (header === 'bearer') return { type: 'http', scheme: 'bearer', description };
  return { type: 'apiKey', in: 'header', name: header, description };
}

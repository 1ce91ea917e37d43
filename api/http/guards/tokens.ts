import type { IncomingHttpHeaders } from 'node:http';
import { singleHeader } from '#api/http/exchange.ts';
import type { Guard, Head, Route, SecurityScheme } from '#api/route.ts';
import type { Rejection } from '#shared/kernel/errors.ts';
import { membersOf } from '#shared/kernel/json.ts';
import { type Secrets, secretCheck } from '#shared/kernel/secret.ts';
import { headerFault, identity, role, USER } from './identity.ts';

// Guards that require a token: of an account, an operator or the gateway.

/** Returns the account and session of a valid access token, or null. A handler then reads their current state. */
type ReadAccess = (token: string) => { sub: string; sid: string } | null;

const INVALID: Rejection = { rejected: 'AUTH_INVALID_TOKEN' };

const ACCESS_TOKEN: SecurityScheme = {
  name: 'accessToken',
  header: 'bearer',
  description:
    'Access token of an account: a JWT that login, registration or refresh has returned. It is valid for 15 minutes, and never longer than its session.',
};
const REFRESH_TOKEN: SecurityScheme = {
  name: 'refreshToken',
  header: 'bearer',
  description: 'Refresh token of a session: a JWT that can be exchanged once. The body may hold it instead.',
};
const OPERATOR_TOKEN: SecurityScheme = {
  name: 'operatorToken',
  header: 'bearer',
  description: 'OPS_TOKEN, the secret of operators. It opens every route of `/v1/ops`, and `/metrics`.',
};
const MONITORING_TOKEN: SecurityScheme = {
  name: 'monitoringToken',
  header: 'bearer',
  description:
    'OPS_READ_TOKEN, the secret of monitoring and autoscalers. It opens `/metrics`, and the status, queues and workers of `/v1/ops`.',
};
const GATEWAY_TOKEN: SecurityScheme = {
  name: 'gatewayToken',
  header: 'X-Gateway-Token',
  description:
    'GATEWAY_TOKEN, the proof that the gateway wrote the identity headers. It is required beside them wherever GATEWAY_TOKEN is set, as in production.',
};

/** Requires a valid access token and fills `identity.session`. */
export function accessToken(read: ReadAccess): Guard {
  return {
    name: 'accessToken',
    proves: 'account',
    codes: ['AUTH_INVALID_TOKEN'],
    headers: [],
    proofs: [[{ scheme: ACCESS_TOKEN }]],
    check(head, known) {
      const token = bearerToken(head);
      const claims = token === undefined ? null : read(token);
      if (claims === null) return INVALID;
      known.session = { accountId: claims.sub, sessionId: claims.sid };
      return undefined;
    },
  };
}

/**
 * Fills `identity.bearer` with a token that the body may hold instead. With `isToken`, a malformed header or an invalid token is refused
 * before any fault of a body that holds no token. Without it nothing is refused, because a logout with an invalid token succeeds.
 */
export function tokenInHeader(isToken?: (token: string) => boolean): Guard {
  return {
    name: 'tokenInHeader',
    codes: isToken === undefined ? [] : ['AUTH_INVALID_TOKEN'],
    headers: [],
    proofs: [[{ scheme: REFRESH_TOKEN }], []],
    check(head, known) {
      if (head.headers.authorization === undefined) return undefined;
      const token = bearerToken(head);
      if (token !== undefined) known.bearer = token;
      const isInvalid = isToken !== undefined && (token === undefined || !isToken(token));
      if (isInvalid) known.bearerFault = (body) => (holdsToken(body) ? undefined : INVALID);
      return undefined;
    },
  };
}

function holdsToken(body: unknown): boolean {
  const { refreshToken } = membersOf(body);
  return typeof refreshToken === 'string' && refreshToken !== '';
}

/** The tokens of operators and of monitoring. `opsReadToken` opens only what takes it. */
export interface OpsTokens {
  opsToken?: Secrets | undefined;
  opsReadToken?: Secrets | undefined;
}

const REFUSED = {
  rejected: 'UNAUTHENTICATED',
  message: '`Authorization: Bearer OPS_READ_TOKEN` or `OPS_TOKEN` is required',
} as const;

/** Requires OPS_READ_TOKEN or OPS_TOKEN as bearer token in production. If neither is configured there, refuses every call. */
export function opsToken(config: OpsTokens & { production: boolean }): Guard {
  const isToken = secretCheck([config.opsToken ?? [], config.opsReadToken ?? []].flat());
  return {
    name: 'opsToken',
    codes: config.production ? ['UNAUTHENTICATED', 'RATE_LIMITED'] : [],
    headers: [],
    proofs: [[{ scheme: MONITORING_TOKEN }], [{ scheme: OPERATOR_TOKEN }], ...(config.production ? [] : [[]])],
    wrongToken: (head) => wrongBearer(head, (token) => isToken?.(token) === true),
    check(head) {
      if (!config.production) return undefined;
      const token = bearerToken(head);
      return token !== undefined && isToken?.(token) === true ? undefined : REFUSED;
    },
  };
}

/** Returns the name of an operator in the audit: that of the ADMIN with this id, or of the holder of OPS_TOKEN. */
export function operatorName(adminId: string | null): string {
  return adminId === null ? 'OPS_TOKEN' : `ADMIN ${adminId}`;
}

const NO_OPERATOR = {
  rejected: 'UNAUTHENTICATED',
  message: '`Authorization: Bearer OPS_TOKEN` or the identity of an ADMIN is required',
} as const;

/**
 * Requires `Authorization: Bearer OPS_TOKEN`, outside production too, or the identity of an ADMIN. Fills `identity.operator`. Another bearer
 * token counts as none, because a gateway may pass on the token of its user beside the identity. `opsReadToken` is for a route that reads
 * neither a person nor a reason: its holder may call that too.
 */
export function operator(config: OpsTokens): Guard {
  const isToken = secretCheck(config.opsToken);
  const isReadToken = secretCheck(config.opsReadToken);
  const person = [identity(), role('ADMIN')];
  const holderOf = (head: Head): string | undefined => {
    const token = bearerToken(head);
    if (token === undefined) return undefined;
    if (isToken?.(token) === true) return operatorName(null);
    return isReadToken?.(token) === true ? 'OPS_READ_TOKEN' : undefined;
  };
  return {
    name: 'operator',
    proves: 'identity',
    codes: ['UNAUTHENTICATED', 'FORBIDDEN', 'RATE_LIMITED'],
    headers: [],
    wrongToken: (head) => wrongBearer(head, () => holderOf(head) !== undefined),
    proofs: [
      [{ scheme: OPERATOR_TOKEN }],
      ...('opsReadToken' in config ? [[{ scheme: MONITORING_TOKEN }]] : []),
      [{ scheme: USER.schemes.id }, { scheme: USER.schemes.role, values: ['ADMIN'] }],
    ],
    trustsIdentity: (head) => holderOf(head) === undefined,
    check(head, known) {
      const holder = holderOf(head);
      if (holder !== undefined) {
        known.operator = holder;
        return undefined;
      }
      for (const guard of person) {
        const refused = guard.check(head, known);
        if (refused !== undefined) return refused.rejected === 'UNAUTHENTICATED' ? NO_OPERATOR : refused;
      }
      known.operator = operatorName(known.actor?.id ?? '');
      return undefined;
    },
  };
}

const BEARER = /^Bearer +([^\s]+)$/i;

/** Returns the token of `Authorization: Bearer`, or undefined if the header is missing, malformed or repeated. */
function bearerToken(head: Head): string | undefined {
  return BEARER.exec(singleHeader(head, 'authorization') ?? '')?.[1];
}

function wrongBearer(head: Head, isRight: (token: string) => boolean): 'operator' | undefined {
  const token = bearerToken(head);
  return token === undefined || isRight(token) ? undefined : 'operator';
}

/**
 * Requires the gateway token. Returns undefined if none is configured: identity headers are then trusted from every caller.
 * An empty token counts as configured and refuses every call, so that a missing secret does not open the door.
 */
export function gatewayToken(config: { gatewayToken?: Secrets | undefined }): Guard | undefined {
  if (config.gatewayToken === undefined) return undefined;
  const check = secretCheck(config.gatewayToken);
  const isToken = (token: string) => check?.(token) === true;
  return {
    name: 'gatewayToken',
    codes: ['UNAUTHENTICATED'],
    headers: [],
    proofs: [[{ scheme: GATEWAY_TOKEN }]],
    vouches: true,
    wrongToken(head) {
      const token = singleHeader(head, 'x-gateway-token') ?? '';
      return token === '' || isToken(token) ? undefined : 'gateway';
    },
    check(head) {
      const token = singleHeader(head, 'x-gateway-token');
      if (token !== undefined && isToken(token)) return undefined;
      return {
        rejected: 'UNAUTHENTICATED',
        details: [headerFault('x-gateway-token', 'must be the token of the gateway')],
      };
    },
  };
}

/** The tokens by which the gateway and neighbours prove themselves. */
interface CallerTokens {
  gatewayToken?: Secrets | undefined;
  internalServiceToken?: Secrets | undefined;
  attempt: { receiverToken?: Secrets | undefined };
  notification: { senderTokens: Readonly<Record<string, Secrets | undefined>> };
}

/**
 * Returns a function that decides, for any route, which callers may choose the id of their request and continue a trace: the gateway and
 * neighbours, with a token of theirs. A client that is believed could mix its requests into the logs and traces of others, or have all of
 * them recorded. If no gateway token is configured, every caller is believed, as with identity headers.
 */
export function provenCallers(tokens: CallerTokens): (headers: IncomingHttpHeaders) => boolean {
  const { gatewayToken, internalServiceToken, attempt, notification } = tokens;
  if (gatewayToken === undefined) return () => true;
  const ofNeighbours = [internalServiceToken, attempt.receiverToken, ...Object.values(notification.senderTokens)];
  const checks = [
    ['x-gateway-token', secretCheck(gatewayToken)],
    ['x-internal-token', secretCheck(ofNeighbours.flatMap((secrets) => secrets ?? []))],
  ] as const;
  return (headers) =>
    checks.some(([name, isToken]) => {
      const given = headers[name];
      return typeof given === 'string' && isToken?.(given) === true;
    });
}

/** Returns the routes with `gate` before all other guards of each route that trusts identity headers. */
export function behindGateway(routes: readonly Route[], gate: Guard | undefined): Route[] {
  if (gate === undefined) return [...routes];
  return routes.map((route) => {
    const trusting = route.guards.flatMap(({ trustsIdentity }) => trustsIdentity ?? []);
    return trusting.length === 0 ? route : { ...route, guards: [gateWhere(trusting, gate), ...route.guards] };
  });
}

/** Returns the gate for these guards. A request whose identity headers none of them trusts passes without a token. */
function gateWhere(trusting: readonly NonNullable<Guard['trustsIdentity']>[], gate: Guard): Guard {
  if (trusting.includes('always')) return gate;
  return {
    ...gate,
    check: (head, known) =>
      trusting.some((trusts) => trusts === 'always' || trusts(head)) ? gate.check(head, known) : undefined,
  };
}

import { CALLING_WORKERS, DOORS_OF_SERVICES, type Reader, SCRAPED } from '#infra/config/readers.ts';
import { earlierValuesOf, flag, guarded, inGroup, textOf, word } from '#infra/config/rows.ts';
import { GATEWAY_TRUSTS } from '#infra/config/variable.ts';

const DOOR: readonly Reader[] = ['web'];
const DOOR_OF_ATTEMPTS: readonly Reader[] = ['web:attempt'];

/** The tokens and proxies that a process trusts. */
export const TRUST = inGroup('Trust', {
  GATEWAY_TOKEN: guarded(
    'token',
    DOOR,
    'If set, identity headers are trusted only together with `X-Gateway-Token` of this value. Required in production, unless `GATEWAY_TRUST=network`.',
  ),
  GATEWAY_TOKEN_PREVIOUS: earlierValuesOf('GATEWAY_TOKEN', DOOR),
  GATEWAY_TRUST: word(
    'gatewayTrust',
    GATEWAY_TRUSTS,
    'token',
    '`network` states that only the gateway can reach the port: production then starts without `GATEWAY_TOKEN`.',
  ),
  EXAMHALL_OPEN: flag(
    'isOpen',
    '0',
    '`1` allows a process outside production to listen for other machines with well-known tokens or without `GATEWAY_TOKEN`. Any of them can then act as any user. A process on loopback then also serves requests to other hosts.',
  ),
  INTERNAL_SERVICE_TOKEN: guarded(
    'token',
    [...DOORS_OF_SERVICES, ...CALLING_WORKERS],
    'Token of calls between services, if no more specific one is set. Outgoing calls send it.',
  ),
  INTERNAL_SERVICE_TOKEN_PREVIOUS: earlierValuesOf('INTERNAL_SERVICE_TOKEN', DOORS_OF_SERVICES),
  ATTEMPT_INTERNAL_SERVICE_TOKEN: guarded(
    'token',
    DOOR_OF_ATTEMPTS,
    'Token that start, release and handoff require; unset = `INTERNAL_SERVICE_TOKEN`.',
  ),
  ATTEMPT_INTERNAL_SERVICE_TOKEN_PREVIOUS: earlierValuesOf('ATTEMPT_INTERNAL_SERVICE_TOKEN', DOOR_OF_ATTEMPTS),
  OPS_TOKEN: guarded(
    'token',
    DOOR,
    'Token of operators: every route of `/v1/ops`, acts on dead letters included, the console, and `/metrics` of `web`. Monitoring takes `OPS_READ_TOKEN`.',
  ),
  OPS_TOKEN_PREVIOUS: earlierValuesOf('OPS_TOKEN', DOOR),
  OPS_READ_TOKEN: guarded(
    'token',
    SCRAPED,
    'Token of monitoring and autoscalers: `/metrics`, `GET /v1/ops/status`, `/v1/ops/queues` and `/v1/ops/workers`, and nothing else.',
  ),
  OPS_READ_TOKEN_PREVIOUS: earlierValuesOf('OPS_READ_TOKEN', SCRAPED),
  TRUSTED_PROXIES: textOf(
    'addresses',
    'auth.trustedProxies',
    null,
    'Addresses and networks (CIDR), comma-separated, of the proxies before this process. The client is the last hop of `X-Forwarded-For` outside them. `none` = no proxy, as outside production if unset. In production a `web` process that serves the auth service requires it.',
  ),
});

import { SENDER } from '#infra/neighbours/owner-call.ts';
import { COUNTERS } from '#shared/classifier/generation.ts';
import {
  AMOUNT,
  closed,
  fields,
  type NeighbourCall,
  type Reply,
  type Route,
  refusal,
  type Schema,
  type StandIn,
  TEXT,
  textIn,
} from './stand-in.ts';

/** The only caller of usage service, wallet and question bank, and the headers that name on whose behalf it calls. */
export const CALLER_OF_OWNERS = SENDER;
export const OWNER_HEADERS = ['x-organization-id', 'x-actor-id', 'x-actor-role'] as const;

/** The state of usage service and wallet. Each idempotency key takes effect once. */
export interface Ledger {
  balance: number;
  /** Limit by counter; a missing counter is unlimited. */
  limits: Map<string, number>;
  used: Map<string, number>;
  /** By key: the counted items, and the number of calls with this key. */
  consumed: Map<string, { items: unknown; times: number }>;
  debits: Map<string, { organizationId: string; amount: number; times: number }>;
}

/** Returns a ledger without limits, usage or debits. */
export function newLedger(balance = 1_000_000): Ledger {
  return { balance, limits: new Map(), used: new Map(), consumed: new Map(), debits: new Map() };
}

interface Item {
  counter: string;
  amount: number;
}

/** A call of usage service or wallet whose body has its shape. */
export interface LedgerCall extends Pick<NeighbourCall, 'method' | 'path' | 'headers'> {
  // biome-ignore lint/suspicious/noExplicitAny: the path determines the fields, and the shapes below check them
  body: any;
}

/** Applies a call for usage service or wallet to the ledger and returns the answer. Returns undefined for any other call. */
export function answerFrom(ledger: Ledger, { method, path, headers, body }: LedgerCall): Reply | undefined {
  const ok = (data: unknown): Reply => ({ status: 200, body: { success: true, data } });
  if (path === '/v1/usage/check') {
    const exceeded = (body.checks as Item[]).filter(
      ({ counter, amount }) => (ledger.used.get(counter) ?? 0) + amount > (ledger.limits.get(counter) ?? Infinity),
    );
    return ok({ allowed: exceeded.length === 0, exceeded: exceeded.map(({ counter }) => counter) });
  }
  if (path === '/v1/usage/consume') {
    const key = String(headers['idempotency-key']);
    const known = ledger.consumed.get(key);
    ledger.consumed.set(key, { items: body.items, times: (known?.times ?? 0) + 1 });
    if (known !== undefined) return { status: 409, body: { success: false } };
    for (const { counter, amount } of body.items as Item[])
      ledger.used.set(counter, (ledger.used.get(counter) ?? 0) + amount);
    return ok({ consumed: true });
  }
  const wallet = /^\/v1\/wallets\/([^/]+)\/(balance|transactions)$/.exec(path);
  if (wallet === null) return undefined;
  if (method === 'GET') return ok({ balance: ledger.balance });
  const key = String(body.idempotencyKey);
  const known = ledger.debits.get(key);
  const debit = { organizationId: wallet[1] ?? '', amount: body.amount };
  ledger.debits.set(key, { ...(known ?? debit), times: (known?.times ?? 0) + 1 });
  if (known === undefined) ledger.balance -= body.amount;
  return ok({ transactionId: key });
}

/** Facts of the usage service: limits by organization and counter. */
interface UsageFacts {
  limits: Readonly<Record<string, Readonly<Record<string, number>>>>;
}

/** Facts of the wallet: balances by organization. */
interface WalletFacts {
  balances: Readonly<Record<string, number>>;
}

const ITEMS = { type: 'array', minItems: 1, items: closed({ counter: { enum: [...COUNTERS] }, amount: AMOUNT }) };
const BY_ORGANIZATION = (value: object) => ({ type: 'object', additionalProperties: value });

/** Opens a usage service without limits and a wallet in which each organization begins with the same balance. */
export function ownerStandIns(firstBalance: number) {
  const ledgers = new Map<string, Ledger>();

  function ledgerOf(organizationId: string): Ledger {
    const ledger = ledgers.get(organizationId) ?? newLedger(firstBalance);
    ledgers.set(organizationId, ledger);
    return ledger;
  }

  /** Applies a call to the ledger of its organization, which header and body or path must name alike. */
  function apply(call: NeighbourCall, organizationId: string): Reply {
    if (call.headers['x-organization-id'] !== organizationId)
      return refusal(403, 'FORBIDDEN', 'the header names another organization');
    const reply = answerFrom(ledgerOf(organizationId), call);
    return reply ?? refusal(404, 'ROUTE_NOT_FOUND', 'unknown route');
  }

  function debit(call: NeighbourCall, organizationId: string): Reply {
    const { amount, idempotencyKey } = call.body as { amount: number; idempotencyKey: string };
    const ledger = ledgerOf(organizationId);
    const known = ledger.debits.get(idempotencyKey);
    if (known !== undefined && known.amount !== amount)
      return refusal(422, 'IDEMPOTENCY_KEY_REUSED', 'this key has debited another amount');
    if (known === undefined && amount > ledger.balance)
      return refusal(402, 'WALLET_INSUFFICIENT', 'the balance is too low');
    return apply(call, organizationId);
  }

  const post = (path: RegExp, shape: Schema, answer: Route['answer'], ...headers: string[]): Route => ({
    method: 'POST',
    path,
    shape,
    answer,
    senders: [CALLER_OF_OWNERS],
    headers: [...OWNER_HEADERS, ...headers],
  });
  const ids = fields(TEXT, 'organizationId', 'actorId');
  const inBody = (call: NeighbourCall) => apply(call, textIn(call.body, 'organizationId'));
  const stateBy = (part: (ledger: Ledger) => object) =>
    Object.fromEntries([...ledgers].map(([organizationId, ledger]) => [organizationId, part(ledger)]));

  const usage = {
    facts: closed({ limits: BY_ORGANIZATION(BY_ORGANIZATION(AMOUNT)) }),
    learn({ limits }: UsageFacts) {
      for (const [organizationId, own] of Object.entries(limits))
        ledgerOf(organizationId).limits = new Map(Object.entries(own));
    },
    routes: [
      post(/^\/v1\/usage\/check$/, closed({ ...ids, checks: ITEMS }), inBody),
      post(/^\/v1\/usage\/consume$/, closed({ ...ids, items: ITEMS }), inBody, 'idempotency-key'),
    ],
    state: () =>
      stateBy(({ used, limits, consumed }) => ({
        used: Object.fromEntries(used),
        limits: Object.fromEntries(limits),
        consumed: Object.fromEntries(consumed),
      })),
    forget() {
      for (const ledger of ledgers.values())
        for (const part of [ledger.used, ledger.limits, ledger.consumed]) part.clear();
    },
  } satisfies StandIn<UsageFacts>;

  const wallet = {
    facts: closed({ balances: BY_ORGANIZATION(AMOUNT) }),
    learn({ balances }: WalletFacts) {
      for (const [organizationId, balance] of Object.entries(balances)) ledgerOf(organizationId).balance = balance;
    },
    routes: [
      {
        method: 'GET',
        path: /^\/v1\/wallets\/([^/]+)\/balance$/,
        senders: [CALLER_OF_OWNERS],
        headers: OWNER_HEADERS,
        answer: (call: NeighbourCall, [organizationId = '']: string[]) => apply(call, organizationId),
      },
      post(
        /^\/v1\/wallets\/([^/]+)\/transactions$/,
        closed({ type: { const: 'USAGE_DEBIT' }, amount: AMOUNT, ...fields(TEXT, 'reason', 'idempotencyKey') }),
        (call, [organizationId = '']) => debit(call, organizationId),
      ),
    ],
    state: () => stateBy(({ balance, debits }) => ({ balance, debits: Object.fromEntries(debits) })),
    forget() {
      for (const ledger of ledgers.values()) {
        ledger.balance = firstBalance;
        ledger.debits.clear();
      }
    },
  } satisfies StandIn<WalletFacts>;

  return { usage, wallet, ledgerOf };
}

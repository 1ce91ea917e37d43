import { SENDER } from '#infra/neighbours/owner-call.ts';
import { COUNTERS } from '#shared/classifier/generation.ts';
import { AMOUNT, closed, type NeighbourCall, type Reply, refusal, type StandIn, TEXT, textIn } from './stand-in.ts';

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
export interface UsageFacts {
  limits: Readonly<Record<string, Readonly<Record<string, number>>>>;
}

/** Facts of the wallet: balances by organization. */
export interface WalletFacts {
  balances: Readonly<Record<string, number>>;
}

export interface Owners {
  usage: StandIn & { learn(facts: UsageFacts): void };
  wallet: StandIn & { learn(facts: WalletFacts): void };
  /** Returns the ledger of an organization, with the first balance if it is new. */
  ledgerOf(organizationId: string): Ledger;
}

const COUNTER = { enum: [...COUNTERS] };
const ITEMS = { type: 'array', minItems: 1, items: closed({ counter: COUNTER, amount: AMOUNT }) };
const BY_ORGANIZATION = (value: object) => ({ type: 'object', additionalProperties: value });

/** Opens a usage service without limits and a wallet in which each organization begins with the same balance. */
export function ownerStandIns(firstBalance: number): Owners {
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

  const shared = { senders: [CALLER_OF_OWNERS], headers: OWNER_HEADERS };
  const inBody = (call: NeighbourCall) => apply(call, textIn(call.body, 'organizationId'));
  const stateBy = (part: (ledger: Ledger) => object) =>
    Object.fromEntries([...ledgers].map(([organizationId, ledger]) => [organizationId, part(ledger)]));

  function learnUsage({ limits }: UsageFacts): void {
    for (const [organizationId, own] of Object.entries(limits))
      ledgerOf(organizationId).limits = new Map(Object.entries(own));
  }

  function learnWallet({ balances }: WalletFacts): void {
    for (const [organizationId, balance] of Object.entries(balances)) ledgerOf(organizationId).balance = balance;
  }

  return {
    ledgerOf,
    usage: {
      learn: learnUsage,
      facts: { shape: closed({ limits: BY_ORGANIZATION(BY_ORGANIZATION(AMOUNT)) }), learn: learnUsage },
      routes: [
        {
          ...shared,
          method: 'POST',
          path: /^\/v1\/usage\/check$/,
          shape: closed({ organizationId: TEXT, actorId: TEXT, checks: ITEMS }),
          answer: inBody,
        },
        {
          ...shared,
          method: 'POST',
          path: /^\/v1\/usage\/consume$/,
          headers: [...OWNER_HEADERS, 'idempotency-key'],
          shape: closed({ organizationId: TEXT, actorId: TEXT, items: ITEMS }),
          answer: inBody,
        },
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
    },
    wallet: {
      learn: learnWallet,
      facts: { shape: closed({ balances: BY_ORGANIZATION(AMOUNT) }), learn: learnWallet },
      routes: [
        {
          ...shared,
          method: 'GET',
          path: /^\/v1\/wallets\/([^/]+)\/balance$/,
          answer: (call, [organizationId = '']) => apply(call, organizationId),
        },
        {
          ...shared,
          method: 'POST',
          path: /^\/v1\/wallets\/([^/]+)\/transactions$/,
          shape: closed({ type: { const: 'USAGE_DEBIT' }, amount: AMOUNT, reason: TEXT, idempotencyKey: TEXT }),
          answer: (call, [organizationId = '']) => debit(call, organizationId),
        },
      ],
      state: () => stateBy(({ balance, debits }) => ({ balance, debits: Object.fromEntries(debits) })),
      forget() {
        for (const ledger of ledgers.values()) {
          ledger.balance = firstBalance;
          ledger.debits.clear();
        }
      },
    },
  };
}

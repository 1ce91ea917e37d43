import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { TRANSACTION_NAMES } from './transaction-names.ts';
import type { SeenTransaction } from './transaction-notes.ts';

/** One kind of transaction, over all runs of the tests. The largest numbers are kept, because a refused one sends less. */
export interface RecordedTransaction {
  /** Commands with the commit. `many`: as many as there are rows. */
  readonly commands: number | 'many';
  /** Shards that it may reach. `all`: a statement names no shard key. */
  readonly shards: number | 'many' | 'all';
  /** `collection command`, sorted. */
  readonly statements: readonly string[];
}

export type RecordedTransactions = Readonly<Record<string, RecordedTransaction>>;

/** Above these numbers a transaction has one statement, or one shard key, for each of its rows. */
const MANY = { commands: 12, shards: 5 } as const;
const FILE = path.join(import.meta.dirname, '../engines/recorded/transactions.json');

export function readRecordedTransactions(): RecordedTransactions {
  return JSON.parse(readFileSync(FILE, 'utf8'));
}

/** Writes one line for each transaction. */
export function saveTransactions(recorded: RecordedTransactions): void {
  const lines = Object.entries(recorded).map(([kind, one]) => `  ${JSON.stringify(kind)}: ${JSON.stringify(one)}`);
  writeFileSync(FILE, `{\n${lines.join(',\n')}\n}\n`);
}

/** Returns the record with the transactions of a run. */
export function withTransactions(before: RecordedTransactions, seen: readonly SeenTransaction[]): RecordedTransactions {
  const after = new Map(Object.entries(before));
  for (const { kind, commands, shards, statements } of seen) {
    const known = after.get(kind);
    after.set(kind, {
      commands: larger(known?.commands ?? 0, commands > MANY.commands ? 'many' : commands),
      shards: larger(known?.shards ?? 0, shards !== 'all' && shards > MANY.shards ? 'many' : shards),
      statements: [...new Set([...(known?.statements ?? []), ...statements])].sort(),
    });
  }
  return Object.fromEntries([...after].sort(([a], [b]) => (a < b ? -1 : 1)));
}

const WORDS = ['many', 'all'];

function larger<Size extends number | string>(a: Size, b: Size): Size {
  const rank = (size: Size) => (typeof size === 'number' ? size : Number.MAX_SAFE_INTEGER + WORDS.indexOf(size));
  if (typeof a === 'string' && typeof b === 'string') return WORDS.indexOf(a) > WORDS.indexOf(b) ? a : b;
  return rank(a) >= rank(b) ? a : b;
}

/** Returns the transactions of a run that have no name. */
export function unknownTransactions(
  seen: readonly SeenTransaction[],
  names: Readonly<Record<string, string>> = TRANSACTION_NAMES,
): string[] {
  return [...new Set(seen.map(({ kind }) => kind))].filter((kind) => !(kind in names)).sort();
}

/** Returns one line for each transaction of a run that sends or reaches more than the record states. */
export function outgrownTransactions(
  seen: readonly SeenTransaction[],
  recorded: RecordedTransactions = readRecordedTransactions(),
): string[] {
  const after = Object.entries(withTransactions(recorded, seen));
  const grown = after.filter(([kind, one]) => JSON.stringify(one) !== JSON.stringify(recorded[kind]));
  return grown.map(
    ([kind, { commands, shards, statements }]) =>
      `${kind}: ${commands} commands, ${shards} shards: ${statements.join(', ')}`,
  );
}

/**
 * Returns the rows of the table in docs/capacity.md.
 * @throws if a recorded transaction has no name
 */
export function transactionRows(
  recorded = readRecordedTransactions(),
  names: Readonly<Record<string, string>> = TRANSACTION_NAMES,
): string[][] {
  const unnamed = Object.keys(recorded).filter((kind) => !(kind in names));
  if (unnamed.length > 0) throw new Error(`scripts/shards/transaction-names.ts has no name for: ${unnamed.join(', ')}`);
  return Object.entries(names).flatMap(([kind, name]) => {
    const one = recorded[kind];
    if (one === undefined) return [];
    const collections = [...new Set(one.statements.map((statement) => statement.split(' ', 1)[0] ?? ''))];
    return [[name, shown(collections), String(one.commands), String(one.shards)]];
  });
}

/** Maximum width of the list of collections in a row, and number of names in it. */
const WIDTH = 67;
const NAMED = 4;

function shown(collections: readonly string[]): string {
  const names = collections.map((name) => `\`${name}\``);
  const all = names.join(', ');
  if (names.length <= NAMED && all.length <= WIDTH) return all;
  const fits = [3, 2].find((count) => `${names.slice(0, count).join(', ')} and 99 more`.length <= WIDTH) ?? 1;
  return `${names.slice(0, fits).join(', ')} and ${names.length - fits} more`;
}

import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

/** Costs of one operation, as `npm run capacity -- --measure` has measured them. */
export interface OperationCost {
  /** Processor time (ms) of the front door and of the worker; 0 without one. */
  doorMs: number;
  workerMs: number;
  /** Processor time (ms) of the server that acted as MongoDB. */
  databaseMs: number;
  /** MongoDB commands of door and worker, polls left out. */
  commands: number;
  /** Bytes between the processes and MongoDB, both directions. */
  bytes: number;
}

export const OPERATIONS = ['start', 'save', 'submit', 'notice', 'read', 'inbox', 'login', 'refresh'] as const;
export type Operation = (typeof OPERATIONS)[number];
export type Costs = Readonly<Record<Operation, OperationCost>>;

/** Costs with the machine and the day on which they were measured. */
export interface MeasuredCosts {
  readonly on: string;
  readonly machine: string;
  readonly database: string;
  /** Costs in an empty database. */
  readonly costs: Costs;
  /** Costs of operations beside this many stored attempts, for the growth. */
  readonly growth: readonly { readonly attempts: number; readonly costs: Partial<Costs> }[];
}

const FILE = path.join(import.meta.dirname, 'measured.json');

export function readCosts(): MeasuredCosts {
  return JSON.parse(readFileSync(FILE, 'utf8'));
}

export function writeCosts(costs: MeasuredCosts): void {
  writeFileSync(FILE, `${JSON.stringify(costs, null, 2)}\n`);
}

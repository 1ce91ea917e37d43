import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

/** Costs of one operation, as `npm run capacity -- --measure` has measured them. */
export interface OperationCost {
  /** Processor time (ms) of the front door and of the worker; 0 without one. */
  doorMs: number;
  workerMs: number;
  /** Processor time (ms) of the server that acted as MongoDB. */
  databaseMs: number;
  /** MongoDB commands of door and worker. */
  commands: number;
  /** Bytes between the processes and MongoDB, both directions. */
  bytes: number;
}

/** Operations whose costs are measured, with their names for a reader. */
export const OPERATIONS = {
  start: 'start of an attempt, 40 questions',
  save: 'save of one answer of 40',
  submit: 'submit, graded by the worker',
  notice: 'notice, from the outbox to the inbox',
  read: 'read of an attempt with 40 answers',
  inbox: 'page of an inbox with its counts',
  login: 'login, hash included',
  refresh: 'refresh of a session, hashes included',
} as const;
export type Operation = keyof typeof OPERATIONS;
export type Costs = Readonly<Record<Operation, OperationCost>>;

/** Costs with the machine and the day on which they were measured. */
export interface MeasuredCosts {
  readonly on: string;
  readonly machine: string;
  readonly database: string;
  readonly costs: Costs;
}

const FILE = path.join(import.meta.dirname, 'costs.json');

export function readCosts(): MeasuredCosts {
  return JSON.parse(readFileSync(FILE, 'utf8'));
}

export function writeCosts(costs: MeasuredCosts): void {
  writeFileSync(FILE, `${JSON.stringify(costs, null, 2)}\n`);
}

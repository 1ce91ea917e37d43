import { randomBytes } from 'node:crypto';
import path from 'node:path';
import { importAccount } from '#infra/mongo/auth/accounts.ts';
import { type OperatorAct, writeAudit } from '#infra/mongo/operator-audit.ts';
import { ACCOUNT_CODE_BYTES, type Account, accountCodeOf } from '#shared/auth/account.ts';
import { newAccount } from '#shared/auth/registration.ts';
import { newId } from '#shared/kernel/ids.ts';
import { type ImportFile, readImportFile } from './import-file.ts';
import type { ImportedLine } from './import-line.ts';
import type { Flags, Operator } from './operator.ts';
import { reasonOf } from './reason.ts';

const AT_ONCE = 8;
const PROGRESS_EVERY = 1_000;
const MOST_FAULTS_TOLD = 1_000;

type Result = 'imported' | 'thereAlready' | 'refused';
type Counts = Record<Result, number>;

/**
 * Accounts with plain bcrypt hashes from another system. A file with any fault is not begun; one that was begun and killed is
 * run again: what is there already is passed over. The audit says that it was begun, and how it ended.
 */
export async function importAccounts(operator: Operator, [file]: string[], flags: Flags): Promise<number> {
  const reason = reasonOf(operator, flags);
  if (reason === null) return 2;
  if (file === undefined) {
    operator.say('name a file of JSON lines');
    return 2;
  }
  const read = await readImportFile(file);
  if (tellFaults(operator, read)) return 1;
  if (flags.yes !== true) {
    operator.say(`${read.rows.length} account(s) could be imported; say --yes to do it`);
    return 0;
  }
  const audit = (end: 'begun' | 'done', counts: Partial<Counts>) => {
    const act: OperatorAct = { operator: operator.name, reason, now: operator.now() };
    const detail = { end, lines: read.rows.length, ...counts };
    return writeAudit(operator.mongo, act, { action: 'account.import', subject: path.basename(file), detail });
  };
  await audit('begun', {});
  const counts = await importRows(operator, read.rows);
  await audit('done', counts);
  operator.say(`${counts.imported} imported, ${counts.thereAlready} there already, ${counts.refused} refused`);
  return counts.refused === 0 ? 0 : 1;
}

/** True: there are faults, and they have been told. */
function tellFaults(operator: Operator, { rows, faults }: ImportFile): boolean {
  for (const { line, message } of faults.slice(0, MOST_FAULTS_TOLD)) {
    operator.say(line === 0 ? message : `line ${line}: ${message}`);
  }
  if (faults.length > 0) operator.say(`${faults.length} fault(s), ${rows.length} good line(s): nothing was imported`);
  else if (rows.length === 0) operator.say('the file has no lines');
  return faults.length > 0 || rows.length === 0;
}

async function importRows(operator: Operator, rows: ImportFile['rows']): Promise<Counts> {
  const counts: Counts = { imported: 0, thereAlready: 0, refused: 0 };
  let done = 0;
  const queue = rows[Symbol.iterator]();
  const lane = async () => {
    for (const { line, row } of queue) {
      counts[await importRow(operator, line, row)] += 1;
      done += 1;
      if (done % PROGRESS_EVERY === 0) operator.say(`${done} of ${rows.length} lines`);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
  return counts;
}

const WORDS = { email: 'email', phone: 'phone', legacyId: 'legacy id' };

async function importRow(operator: Operator, line: number, row: ImportedLine): Promise<Result> {
  for (;;) {
    const result = await importAccount(operator.mongo, accountOf(operator, row));
    if (result.kind === 'inserted') return 'imported';
    if (result.kind === 'known') return 'thereAlready';
    if (result.what === 'code') continue;
    operator.say(`line ${line}: ${WORDS[result.what]} taken by another account`);
    return 'refused';
  }
}

function accountOf({ now, settings }: Operator, { registration, legacyId, passwordHash }: ImportedLine): Account {
  return newAccount(registration, {
    id: newId(now()),
    accountCode: accountCodeOf(randomBytes(ACCOUNT_CODE_BYTES)),
    legacyId,
    password: { scheme: 'bcrypt', hash: passwordHash },
    organization: settings.defaultOrganization,
    now: new Date(now()),
  });
}

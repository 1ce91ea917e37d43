import { isUtf8 } from 'node:buffer';
import { createHash, randomBytes } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import pLimit from 'p-limit';
import { importAccount } from '#infra/mongo/auth/accounts.ts';
import { writeAudit } from '#infra/mongo/operator-audit.ts';
import { costOf } from '#infra/passwords/hasher.ts';
import { ACCOUNT_CODE_BYTES, type Account, accountCodeOf, ROLES } from '#shared/auth/account.ts';
import { newAccount, type Registration, readRegistration, registrationFaults } from '#shared/auth/registration.ts';
import { isRejection } from '#shared/kernel/errors.ts';
import { newId } from '#shared/kernel/ids.ts';
import { isJsonObject } from '#shared/kernel/json.ts';
import { beginningOf } from '#shared/kernel/text.ts';
import { actFor, type Flags, type Operator } from './operator.ts';
import { counted, EXIT, Refused } from './output.ts';

const AT_ONCE = 8;
const PROGRESS_EVERY = 1_000;
/** Faults of a file that are printed; further ones are only counted. */
const MAX_PRINTED_FAULTS = 1_000;

type Result = 'imported' | 'thereAlready' | 'refused';
type Counts = Record<Result, number>;

/**
 * Imports accounts with plain bcrypt hashes from another system. A file with any fault is refused as a whole. After a killed import, run
 * it again: accounts that are already present are skipped. The audit records the start of an import and its result, with the number of
 * accounts by role and the file's SHA-256. A file with an ADMIN is refused without `--allow-admin`, because an ADMIN operates the platform.
 */
export async function importAccounts(operator: Operator, [file = '']: string[], flags: Flags): Promise<number> {
  const act = actFor(operator, flags);
  const bytes = await readBytes(file);
  const rows = readRows(operator, bytes, { allowAdmin: flags.allowAdmin === true });
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  const roles = rolesOf(rows);
  const tellFile = () => operator.say(`by role: ${roles}\nSHA-256 of the file: ${sha256}`);
  if (flags.yes !== true) {
    operator.say(`dry run: ${counted(rows.length, 'account')} would be imported; pass --yes to import`);
    tellFile();
    return EXIT.done;
  }
  const audit = (end: 'begun' | 'done', counts: Partial<Counts>) => {
    const detail = { end, lines: rows.length, roles, sha256, ...counts };
    const line = { action: 'account.import', subject: path.basename(file), detail } as const;
    return writeAudit(operator.mongo, { ...act, now: operator.now() }, line);
  };
  await audit('begun', {});
  const counts = await importRows(operator, rows);
  await audit('done', counts);
  operator.say(`${counts.imported} imported, ${counts.thereAlready} already present, ${counts.refused} refused`);
  tellFile();
  return counts.refused === 0 ? 0 : 1;
}

/** Returns the number of accounts of each role, such as `2 TEACHER, 58 STUDENT`. Roles without an account are omitted. */
function rolesOf(rows: readonly Row[]): string {
  const byRole = Map.groupBy(rows, ({ account }) => account.registration.role);
  return ROLES.flatMap((role) => (byRole.has(role) ? [`${byRole.get(role)?.length} ${role}`] : [])).join(', ');
}

async function importRows(operator: Operator, rows: readonly Row[]): Promise<Counts> {
  const counts: Counts = { imported: 0, thereAlready: 0, refused: 0 };
  let done = 0;
  await pLimit(AT_ONCE).map(rows, async (row) => {
    counts[await importRow(operator, row)] += 1;
    done += 1;
    if (done % PROGRESS_EVERY === 0) operator.note(`${done} of ${rows.length} lines`);
  });
  return counts;
}

const WORDS = { email: 'email', phone: 'phone', legacyId: 'legacy id' };

async function importRow(operator: Operator, { line, account }: Row): Promise<Result> {
  for (;;) {
    const result = await importAccount(operator.mongo, accountOf(operator, account));
    if (result.kind === 'inserted') return 'imported';
    if (result.kind === 'known') return 'thereAlready';
    if (result.field === 'code') continue;
    operator.fail(`line ${line}: ${WORDS[result.field]} is taken by another account`);
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

/** A valid line with its number, from 1. */
interface Row {
  line: number;
  account: ImportedLine;
}

/** Upper bound of a file, in bytes: the whole file is read into memory and checked before the first account is written. */
const MAX_BYTES = 256 * 1024 * 1024;
const ADMIN_REFUSED = 'role ADMIN requires --allow-admin: an ADMIN operates the platform for every organization';

async function readBytes(file: string): Promise<Buffer> {
  try {
    if ((await stat(file)).size <= MAX_BYTES) return await readFile(file);
  } catch (error) {
    throw new Refused(error instanceof Error ? error.message : 'the file cannot be read');
  }
  throw new Refused('the file is larger than 256 MiB; split it');
}

/** Reads and checks every line; blank lines are skipped. @throws Refused if a line has a fault, after printing the faults */
function readRows({ fail }: Operator, bytes: Buffer, { allowAdmin }: { allowAdmin: boolean }): Row[] {
  if (!isUtf8(bytes)) throw new Refused('the file is not UTF-8');
  const rows: Row[] = [];
  let [faultCount, faultyLines] = [0, 0];
  const seen = new Map<string, number>();
  for (const [index, raw] of bytes
    .toString()
    .replace(/^\uFEFF/, '')
    .split('\n')
    .entries()) {
    if (raw.trim() === '') continue;
    const line = index + 1;
    const read = readImportLine(raw);
    const faults = read.kind === 'faulty' ? read.faults : duplicateFaults(seen, line, read.row);
    if (read.kind === 'row' && read.row.registration.role === 'ADMIN' && !allowAdmin) faults.push(ADMIN_REFUSED);
    for (const message of faults.slice(0, Math.max(0, MAX_PRINTED_FAULTS - faultCount)))
      fail(`line ${line}: ${message}`);
    faultCount += faults.length;
    if (faults.length > 0) faultyLines += 1;
    else if (read.kind === 'row') rows.push({ line, account: read.row });
  }
  const lines = rows.length + faultyLines;
  if (lines === 0) throw new Refused('the file contains no accounts');
  if (faultCount === 0) return rows;
  throw new Refused(`${counted(faultCount, 'error')} in ${counted(lines, 'line')}; nothing was imported`);
}

/** Returns a fault for each value that must be unique and that an earlier line of the file has too. Remembers the values in `seen`. */
function duplicateFaults(seen: Map<string, number>, line: number, { registration, legacyId }: ImportedLine): string[] {
  const faults: string[] = [];
  for (const [name, value] of Object.entries({ email: registration.email, phone: registration.phone, legacyId })) {
    if (value === null) continue;
    const key = `${name} ${value}`;
    const first = seen.get(key);
    if (first === undefined) seen.set(key, line);
    else faults.push(`duplicate ${name} (also on line ${first})`);
  }
  return faults;
}

/** One account to import, normalized. */
export interface ImportedLine {
  registration: Registration;
  legacyId: string | null;
  passwordHash: string;
}

type ReadLine = { kind: 'row'; row: ImportedLine } | { kind: 'faulty'; faults: string[] };

const REQUIRED = ['email', 'fullName', 'role', 'passwordHash'] as const;
const OPTIONAL = ['phone', 'legacyId'] as const;
const LEGACY_ID = /^[^\s\p{Cc}]{1,128}$/u;

/** Reads one line of an import. Returns the account, or every fault of the line. Faults never quote the line, because it contains a hash. */
export function readImportLine(text: string): ReadLine {
  const line = parseObject(text);
  if (line === null) return { kind: 'faulty', faults: ['is not a JSON object'] };
  const faults = shapeFaults(line);
  for (const { path, message } of registrationFaults(line, [], ROLES)) faults.push(`${path.slice(1)} ${message}`);
  const given = (name: string) => (typeof line[name] === 'string' ? line[name] : undefined);
  const legacyId = given('legacyId') ?? null;
  if (legacyId !== null && !LEGACY_ID.test(legacyId)) faults.push('legacyId must have 1-128 characters without blanks');
  const passwordHash = given('passwordHash') ?? '';
  if ('passwordHash' in line && costOf(passwordHash) === null) {
    faults.push('passwordHash must be a bcrypt hash ($2a$, $2b$ or $2y$) of cost 4-15');
  }
  if (faults.length > 0) return { kind: 'faulty', faults };
  const [email, fullName] = [given('email') ?? '', given('fullName') ?? ''];
  const registration = readRegistration(
    { email, fullName, role: given('role') ?? null, phone: given('phone') ?? null },
    ROLES,
  );
  if (isRejection(registration)) throw new Error('a registration without fault was refused');
  return { kind: 'row', row: { registration, legacyId, passwordHash } };
}

function parseObject(text: string): Readonly<Record<string, unknown>> | null {
  try {
    const value: unknown = JSON.parse(text);
    return isJsonObject(value) ? value : null;
  } catch {
    return null;
  }
}

function shapeFaults(line: Readonly<Record<string, unknown>>): string[] {
  const faults: string[] = [];
  const known: readonly string[] = [...REQUIRED, ...OPTIONAL];
  for (const name of REQUIRED) if (!(name in line)) faults.push(`${name} is missing`);
  for (const [name, value] of Object.entries(line)) {
    const mayBeNull = (OPTIONAL as readonly string[]).includes(name);
    if (!known.includes(name)) faults.push(`unknown field ${JSON.stringify(beginningOf(name, 40))}`);
    else if (name !== 'passwordHash' && typeof value !== 'string' && !(mayBeNull && value === null))
      faults.push(`${name} must be text`);
  }
  return faults;
}

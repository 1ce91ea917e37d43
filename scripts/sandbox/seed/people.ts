import type { Gateway } from '#scripts/sandbox/gateway.ts';
import { parentEmail, parentName, type School } from '#scripts/sandbox/school/school.ts';
import { type Progress, runPart } from '#scripts/start/progress.ts';
import { ExamhallError, type SignedIn } from '../../../clients/typescript/src/index.ts';

export interface Filling {
  gateway: Gateway;
  progress: Progress;
  school: School;
  /** Services that the cluster serves. */
  served: ReadonlySet<string>;
  /** Counts things that were not there before, by their kind. */
  add(kind: string, count?: number): void;
  /** Records a line for the end of the run. */
  note(line: string): void;
}

/** Password of every account that the seed registers. It is public. */
export const DEVELOPMENT_PASSWORD = 'mo-cua-so-nhin-troi-xanh';

export interface Person {
  role: 'STUDENT' | 'PARENT' | 'TEACHER';
  email: string;
  fullName: string;
}

/** Bcrypt occupies a processor for a quarter of a second each time. */
const AT_ONCE = 2;

/**
 * Registers the first students, a parent of each, and the teachers of the first classes. The ids of their accounts replace those of the
 * school, so that who signs in owns the attempts and the inbox. Returns the accounts, for the list at the end.
 */
export async function registerPeople(filling: Filling, count: number): Promise<Person[]> {
  if (!filling.served.has('auth')) {
    filling.note('The cluster serves no `auth`, so the school has no accounts.');
    return [];
  }
  const { classes } = filling.school;
  const wanted: [person: Person, learn: (id: string) => void][] = [];
  for (const student of classes.flatMap((room) => room.students).slice(0, count)) {
    const { email, fullName, parentIds } = student;
    wanted.push([{ role: 'STUDENT', email, fullName }, (id) => Object.assign(student, { id })]);
    if (parentIds.length === 0) continue;
    const parent: Person = { role: 'PARENT', email: parentEmail(email), fullName: parentName(fullName) };
    wanted.push([parent, (id) => parentIds.splice(0, 1, id)]);
  }
  for (const { teacher } of count === 0 ? [] : classes)
    wanted.push([
      { role: 'TEACHER', email: teacher.email, fullName: teacher.fullName },
      (id) => Object.assign(teacher, { id }),
    ]);

  const refused = new Set<Person>();
  const register = async ([person, learn]: (typeof wanted)[number]) => {
    const session = await signedIn(filling, person);
    if (session === null) return void refused.add(person);
    // The seed needs only the id.
    await filling.gateway.client('account').logout({ token: session.refreshToken });
    learn(session.user.id);
  };
  await runPart(filling.progress, 'accounts', wanted, register, AT_ONCE);
  return wanted.map(([person]) => person).filter((person) => !refused.has(person));
}

/** Registers one account, or signs in to the one that an earlier run registered. Returns null if neither is possible. */
async function signedIn({ gateway, add, note }: Filling, person: Person): Promise<SignedIn | null> {
  const client = gateway.client('account');
  const { email, role } = person;
  const password = DEVELOPMENT_PASSWORD;
  try {
    const session = await client.register({ body: { ...person, password }, repeatInDoubt: true });
    add('accounts');
    return session;
  } catch (error) {
    if (!(error instanceof ExamhallError)) throw error;
    const isRefusedRole = role === 'TEACHER' && error.status === 400;
    if (isRefusedRole || error.code === 'AUTH_REGISTRATION_CLOSED') {
      note(`No account for the role ${role}: AUTH_SELF_REGISTER_ROLES of the cluster does not contain it.`);
      return null;
    }
    if (error.code !== 'AUTH_EMAIL_TAKEN') throw error;
  }
  try {
    return await client.login({ body: { email, password }, repeatInDoubt: true });
  } catch (error) {
    if (!(error instanceof ExamhallError) || error.kind !== 'final') throw error;
    note(`The account ${email} exists, and its password is not the one of the seed.`);
    return null;
  }
}

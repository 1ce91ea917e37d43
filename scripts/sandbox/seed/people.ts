import type { Gateway } from '#scripts/sandbox/gateway.ts';
import { parentEmail, parentName, type School, type Student, type Teacher } from '#scripts/sandbox/school/school.ts';
import { type Progress, runPart } from '#scripts/start/progress.ts';
import { ExamhallError, type SignedIn } from '../../../clients/typescript/src/index.ts';

/** Dependencies of every part of the seed. */
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

/** An account of the seed, for the list at the end. */
export interface SignIn {
  role: 'STUDENT' | 'PARENT' | 'TEACHER';
  email: string;
  fullName: string;
  /** Id of the account, which the other services know as the user's. */
  id: string;
}

/** An account to register, and where the school learns its id. */
interface Wanted extends Omit<SignIn, 'id'> {
  learn(id: string): void;
}

/** Bcrypt occupies a processor for a quarter of a second each time. */
const AT_ONCE = 2;

/**
 * Registers the first students, a parent of each, and the teachers of the first classes. The ids of their accounts replace those of the
 * school, so that who signs in owns the attempts and the inbox.
 */
export async function registerPeople(filling: Filling, count: number): Promise<SignIn[]> {
  if (!filling.served.has('auth')) {
    filling.note('The cluster serves no `auth`, so the school has no accounts.');
    return [];
  }
  const { classes } = filling.school;
  const students = classes.flatMap((room) => room.students).slice(0, count);
  const teachers = count === 0 ? [] : classes.map((room) => room.teacher);
  const wanted = [...students.flatMap(familyOf), ...teachers.map(teacherOf)];
  const signIns: SignIn[] = [];
  await runPart(
    filling.progress,
    'accounts',
    wanted,
    async (person, index) => {
      const signIn = await registerOne(filling, person);
      if (signIn !== null) signIns[index] = signIn;
    },
    AT_ONCE,
  );
  // The list has a gap for each account that was refused.
  return signIns.filter(Boolean);
}

function familyOf(student: Student): Wanted[] {
  const { email, fullName, parentIds } = student;
  const learn = (id: string) => {
    student.id = id;
  };
  const child: Wanted = { role: 'STUDENT', email, fullName, learn };
  if (parentIds.length === 0) return [child];
  const parent: Wanted = {
    role: 'PARENT',
    email: parentEmail(email),
    fullName: parentName(fullName),
    learn: (id) => void parentIds.splice(0, 1, id),
  };
  return [child, parent];
}

function teacherOf(teacher: Teacher): Wanted {
  const { email, fullName } = teacher;
  const learn = (id: string) => {
    teacher.id = id;
  };
  return { role: 'TEACHER', email, fullName, learn };
}

/**
 * Registers one account, or reads the id of the one that an earlier run registered. The session ends at once, because the seed needs only the
 * id. Returns null if neither is possible.
 */
async function registerOne(filling: Filling, { learn, ...person }: Wanted): Promise<SignIn | null> {
  const session = await signedIn(filling, person);
  if (session === null) return null;
  await filling.gateway.client('account').logout({ token: session.refreshToken });
  learn(session.user.id);
  return { ...person, id: session.user.id };
}

async function signedIn({ gateway, add, note }: Filling, person: Omit<SignIn, 'id'>): Promise<SignedIn | null> {
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

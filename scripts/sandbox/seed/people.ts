import { dataOf } from '#scripts/sandbox/gateway.ts';
import { part } from '#scripts/sandbox/parts.ts';
import { parentEmail, parentName, type Teacher } from '#scripts/sandbox/school/school.ts';
import type { Student } from '#scripts/sandbox/school/students.ts';
import type { SessionEnvelope } from '#shared/generated/auth.ts';
import type { Filling } from './fill.ts';

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
  const signIns = new Array<SignIn | null>(wanted.length).fill(null);
  const register = async (person: Wanted, index: number) => {
    signIns[index] = await registerOne(filling, person);
  };
  await part(filling.progress, 'accounts', wanted, register, AT_ONCE);
  return signIns.filter((signIn) => signIn !== null);
}

function familyOf(student: Student): Wanted[] {
  const { email, fullName, parentIds } = student;
  const child: Wanted = {
    role: 'STUDENT',
    email,
    fullName,
    learn(id) {
      student.id = id;
    },
  };
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
  return {
    role: 'TEACHER',
    email,
    fullName,
    learn(id) {
      teacher.id = id;
    },
  };
}

/** Registers one account, or reads the id of the one that an earlier run registered. Returns null if neither is possible. */
async function registerOne(filling: Filling, { learn, ...person }: Wanted): Promise<SignIn | null> {
  const { gateway, add, note } = filling;
  const reply = await gateway.send({
    name: 'register',
    method: 'POST',
    path: '/v1/auth/register',
    body: { ...person, password: DEVELOPMENT_PASSWORD },
  });
  if (reply.status === 201) {
    add('accounts');
    return known(await signedOut(filling, dataOf<SessionEnvelope>('register', reply, 201)));
  }
  const { code = '' } = reply.envelope();
  if (code === 'AUTH_EMAIL_TAKEN') {
    const session = await signIn(filling, person.email);
    return session === null ? null : known(await signedOut(filling, session));
  }
  const isRefusedRole = person.role === 'TEACHER' && reply.status === 400;
  if (isRefusedRole || code === 'AUTH_REGISTRATION_CLOSED') {
    note(`No account for the role ${person.role}: AUTH_SELF_REGISTER_ROLES of the cluster does not contain it.`);
    return null;
  }
  throw new Error(`register answered ${reply.status} ${code}`);

  function known({ user }: SessionEnvelope): SignIn {
    learn(user.id);
    return { ...person, id: user.id };
  }
}

/** Signs in to an account of an earlier run; null if its password is no longer the one of the seed. */
async function signIn({ gateway, note }: Filling, email: string): Promise<SessionEnvelope | null> {
  const body = { email, password: DEVELOPMENT_PASSWORD };
  const reply = await gateway.send({ name: 'login', method: 'POST', path: '/v1/auth/login', body });
  if (reply.status === 200) return dataOf<SessionEnvelope>('login', reply, 200);
  note(`The account ${email} exists, and its password is not the one of the seed.`);
  return null;
}

/** Ends the session, which the seed needs only for the id. */
async function signedOut({ gateway }: Filling, session: SessionEnvelope): Promise<SessionEnvelope> {
  const body = { refreshToken: session.refreshToken };
  dataOf('logout', await gateway.send({ name: 'logout', method: 'POST', path: '/v1/auth/logout', body }), 200);
  return session;
}

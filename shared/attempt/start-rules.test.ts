import t from 'tap';
import { isRejection } from '#shared/kernel/errors.ts';
import type { StartAccess, StartExam, StartLink } from './start-body.ts';
import { admitStart, planStart, type StartPlan } from './start-rules.ts';

const NOW = new Date('2026-05-04T03:00:00.000Z');
const BEFORE = '2026-05-04T02:59:59.999Z';
const AFTER = '2026-05-04T03:00:00.001Z';
const AT = NOW.toISOString();

const exam: StartExam = {
  id: 'exam-1',
  title: 'Toán',
  status: 'PUBLISHED',
  deliveryMode: 'ONLINE',
  durationMinutes: 60,
  maxAttempts: 3,
  showResultMode: 'IMMEDIATE',
};
const access: StartAccess = { assigned: true, attemptLimit: null };
const link: StartLink = { id: 'link-1', mode: 'GUEST_ALLOWED', active: true };

function verdict(examFields: Partial<StartExam>, accessFields: Partial<StartAccess> = {}): string {
  const plan = planStart({ exam: { ...exam, ...examFields }, access: { ...access, ...accessFields } }, NOW);
  return isRejection(plan) ? plan.rejected : plan.kind;
}

function plan(examFields: Partial<StartExam>, accessFields: Partial<StartAccess>): StartPlan {
  const made = planStart({ exam: { ...exam, ...examFields }, access: { ...access, ...accessFields } }, NOW);
  if (isRejection(made)) throw new Error(made.rejected);
  return made;
}

t.test('rules 4 to 8 and 10 refuse a start, each with its own code', async (t) => {
  t.equal(verdict({}), 'assignment');
  t.equal(verdict({ status: 'DRAFT' }), 'EXAM_NOT_PUBLISHED');
  t.equal(verdict({ deliveryMode: 'OFFLINE' }), 'EXAM_OFFLINE');
  t.equal(verdict({ requiresAccessPassword: true }), 'EXAM_PASSWORD_REQUIRED');
  t.equal(verdict({ requiresAccessPassword: true }, { passwordVerified: true }), 'assignment');
  t.equal(verdict({}, { assigned: false }), 'EXAM_ACCESS_DENIED');
  t.equal(verdict({}, { assignmentDueAt: AT }), 'ASSIGNMENT_OVERDUE', 'at the very instant');
  t.equal(verdict({}, { assignmentDueAt: AFTER }), 'assignment');
});

t.test('a start is allowed from openTime on and before closeTime', async (t) => {
  t.equal(verdict({ openTime: AT, closeTime: AFTER }), 'assignment');
  t.equal(verdict({ openTime: AFTER }), 'EXAM_NOT_OPEN');
  t.equal(verdict({ closeTime: AT }), 'EXAM_CLOSED');
  t.equal(verdict({ openTime: null, closeTime: null }), 'assignment');
});

t.test('a start with an active link is a link start, else the assignment decides', async (t) => {
  const dead = { ...link, active: false };
  t.equal(verdict({}, { link }), 'link');
  t.equal(verdict({}, { link, assigned: false }), 'link');
  t.equal(verdict({}, { link: dead }), 'assignment');
  t.equal(verdict({}, { link: dead, assigned: false }), 'ACCESS_LINK_EXPIRED');
  t.equal(verdict({}, { link: { ...link, expiresAt: AT }, assigned: false }), 'ACCESS_LINK_EXPIRED', 'at the instant');
  t.equal(verdict({}, { link: { ...link, expiresAt: BEFORE }, assigned: false }), 'ACCESS_LINK_EXPIRED');
  t.equal(verdict({}, { link: { ...link, expiresAt: AFTER }, assigned: false }), 'link');
});

t.test('a refused start returns the first rule that fails', async (t) => {
  const closed = { closeTime: BEFORE, requiresAccessPassword: true };
  t.equal(verdict({ ...closed, status: 'DRAFT', deliveryMode: 'OFFLINE' }), 'EXAM_NOT_PUBLISHED');
  t.equal(verdict({ ...closed, deliveryMode: 'OFFLINE' }), 'EXAM_OFFLINE');
  t.equal(verdict(closed, { assigned: false }), 'EXAM_CLOSED');
  t.equal(verdict({ requiresAccessPassword: true }, { assigned: false }), 'EXAM_PASSWORD_REQUIRED');
  t.equal(verdict({ requiresAccessPassword: true }, { assignmentDueAt: BEFORE }), 'EXAM_PASSWORD_REQUIRED');
});

t.test('the smaller limit applies, in the scope of the exam or the link', async (t) => {
  t.equal(plan({}, {}).limit, 3);
  t.equal(plan({}, { attemptLimit: 2 }).limit, 2);
  t.equal(plan({ maxAttempts: null }, { attemptLimit: 5 }).limit, 5);
  t.equal(plan({ maxAttempts: null }, {}).limit, null);
  const guest = plan({}, { link: { ...link, studentLimit: 30 } });
  t.strictSame([guest.limitScope, guest.seatLimit, guest.link?.id], ['exam', 30, 'link-1']);
  const login = plan({}, { link: { ...link, mode: 'LOGIN_REQUIRED', studentLimit: 30 } });
  t.strictSame([login.limitScope, login.seatLimit], ['link', null], 'seats are for guests');
});

t.test('the due time binds assignment starts only', async (t) => {
  t.strictSame(plan({}, { assignmentDueAt: AFTER }).dueAt, new Date(AFTER));
  t.equal(plan({}, { assignmentDueAt: BEFORE, link }).dueAt, null);
});

t.test('rule 9 enforces the attempt limit and the seat limit', async (t) => {
  const base: StartPlan = { kind: 'link', link: null, limit: 2, limitScope: 'exam', seatLimit: 30, dueAt: null };
  const admit = (overrides: Partial<StartPlan>, attempts: number, seats: number, hasSeat = false) =>
    admitStart({ ...base, ...overrides }, { attempts, seats, hasSeat })?.rejected ?? 'admitted';
  t.equal(admit({}, 1, 29), 'admitted');
  t.equal(admit({}, 2, 30), 'ATTEMPT_LIMIT_REACHED');
  t.equal(admit({ limit: null }, 99, 0), 'admitted');
  t.equal(admit({}, 0, 30), 'ACCESS_LINK_FULL');
  t.equal(admit({}, 0, 30, true), 'admitted', 'a student with a seat needs no second one');
  t.equal(admit({ seatLimit: null }, 0, 99), 'admitted');
});

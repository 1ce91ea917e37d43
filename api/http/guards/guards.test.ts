import t from 'tap';
import { readHead } from '#api/http/exchange.ts';
import type { Guard, Head, Identity } from '#api/route.ts';
import { echoRoute } from '#testing/doors/test-door.ts';
import { idempotencyKey } from './idempotency-key.ts';
import { ACTOR, identity, optionalIdentity, role, roleOrNone } from './identity.ts';
import { type InternalSender, internalSender, trustedStart } from './senders.ts';
import { behindGateway, gatewayToken, operator, opsToken } from './tokens.ts';

/** Returns a head as Node delivers it: names in lower case, repeated headers joined. */
function head(...pairs: [string, string][]): Head {
  const headers: Record<string, string> = {};
  for (const [name, value] of pairs) {
    const key = name.toLowerCase();
    headers[key] = headers[key] === undefined ? value : `${headers[key]}, ${value}`;
  }
  return readHead({ headers, rawHeaders: pairs.flat() } as never, 'POST', '/', {});
}

function codeOf(guard: Guard | undefined, given: Head, known: Identity = {}): string | undefined {
  return guard?.check(given, known)?.rejected;
}

t.test('idempotencyKey reads only the first header that is present', async (t) => {
  const guard = idempotencyKey();
  const cases: [[string, string][], Identity['idempotency']][] = [
    [
      [
        ['Idempotency-Key', 'a'],
        ['X-Correlation-Id', 'c'],
      ],
      { key: 'a', header: 'idempotency-key' },
    ],
    [
      [
        ['X-Correlation-Id', 'c'],
        ['X-Idempotency-Key', 'b'],
      ],
      { key: 'b', header: 'x-idempotency-key' },
    ],
    [
      [
        ['Idempotency-Key', ''],
        ['X-Idempotency-Key', 'b'],
      ],
      { key: 'b', header: 'x-idempotency-key' },
    ],
    [[['X-Correlation-Id', '~ !'.repeat(85)]], { key: '~ !'.repeat(85), header: 'x-correlation-id' }],
  ];
  for (const [pairs, wanted] of cases) {
    const known: Identity = {};
    t.equal(codeOf(guard, head(...pairs), known), undefined);
    t.strictSame(known.idempotency, wanted);
  }
  const bad: [string, string][][] = [
    [],
    [['Idempotency-Key', '']],
    [['Idempotency-Key', 'x'.repeat(256)]],
    [['Idempotency-Key', 'kh\u00f3a']],
    [['Idempotency-Key', 'a\tb']],
    [
      ['Idempotency-Key', 'a'],
      ['idempotency-key', 'a'],
    ],
    [
      ['Idempotency-Key', ''],
      ['Idempotency-Key', ''],
      ['X-Idempotency-Key', 'b'],
    ],
  ];
  for (const pairs of bad) t.equal(codeOf(guard, head(...pairs)), 'IDEMPOTENCY_KEY_REQUIRED', JSON.stringify(pairs));
});

const START: [string, string][] = [
  ['X-Internal-Service', 'api-gateway'],
  ['X-Internal-Token', 'the-token'],
  ['X-Exam-Runtime-Decision-Source', 'exam-service'],
];

t.test('trustedStart requires each header once and a configured token', async (t) => {
  const guard = trustedStart({ token: 'the-token' });
  t.equal(codeOf(guard, head(...START)), undefined);
  for (let i = 0; i < START.length; i += 1) {
    const [name, value] = START[i] ?? ['', ''];
    const rest = START.filter((_, j) => j !== i);
    t.equal(codeOf(guard, head(...rest)), 'ATTEMPT_START_UNTRUSTED', `without ${name}`);
    for (const wrong of [`${value}x`, value.toUpperCase(), value.slice(0, -1), '']) {
      t.equal(codeOf(guard, head(...rest, [name, wrong])), 'ATTEMPT_START_UNTRUSTED', `${name}: ${wrong}`);
    }
    t.equal(codeOf(guard, head(...START, [name, value])), 'ATTEMPT_START_UNTRUSTED', `${name} twice`);
  }
  const empty = START.map(([name, value]): [string, string] => [name, value === 'the-token' ? '' : value]);
  t.equal(codeOf(trustedStart({ token: undefined }), head(...START)), 'ATTEMPT_START_UNTRUSTED');
  t.equal(
    codeOf(trustedStart({ token: '' }), head(...empty)),
    'ATTEMPT_START_UNTRUSTED',
    'an empty token counts as not configured',
  );
});

t.test('internalSender answers 503 without a configured token and 401 for any fault', async (t) => {
  const options: InternalSender = {
    senders: ['exam-service'],
    token: 'the-token',
    unauthorizedCode: 'ATTEMPT_INTERNAL_UNAUTHORIZED',
    unconfiguredCode: 'ATTEMPT_INTERNAL_TOKEN_NOT_CONFIGURED',
  };
  const service: [string, string] = ['X-Internal-Service', 'exam-service'];
  const token: [string, string] = ['X-Internal-Token', 'the-token'];
  const guard = internalSender(options);
  const known: Identity = {};
  t.equal(codeOf(guard, head(service, token), known), undefined);
  t.equal(known.sender, 'exam-service');
  for (const pairs of [
    [],
    [service],
    [token],
    [service, token, token],
    [service, service, token],
    [['X-Internal-Service', 'ai'], token],
    [service, ['X-Internal-Token', 'no']],
  ] as [string, string][][]) {
    t.equal(codeOf(guard, head(...pairs)), 'ATTEMPT_INTERNAL_UNAUTHORIZED', JSON.stringify(pairs));
  }
  for (const none of [undefined, '']) {
    t.equal(
      codeOf(internalSender({ ...options, token: none }), head(service, ['X-Internal-Token', ''])),
      'ATTEMPT_INTERNAL_TOKEN_NOT_CONFIGURED',
    );
  }
});

t.test('internalSender accepts each of several services with the receiver’s token', async (t) => {
  const guard = internalSender({
    senders: ['ai-classifier-service', 'api-gateway'],
    token: 'the-token',
    unauthorizedCode: 'ATTEMPT_INTERNAL_UNAUTHORIZED',
    unconfiguredCode: 'ATTEMPT_INTERNAL_TOKEN_NOT_CONFIGURED',
  });
  const token: [string, string] = ['X-Internal-Token', 'the-token'];
  for (const sender of ['ai-classifier-service', 'api-gateway']) {
    const known: Identity = {};
    t.equal(codeOf(guard, head(['X-Internal-Service', sender], token), known), undefined);
    t.equal(known.sender, sender);
  }
  for (const sender of ['exam-service', 'ai-classifier-service,api-gateway', '__proto__', '']) {
    t.equal(codeOf(guard, head(['X-Internal-Service', sender], token)), 'ATTEMPT_INTERNAL_UNAUTHORIZED', sender);
  }
});

t.test('optionalIdentity accepts no identity, or a complete one with a permitted role', async (t) => {
  const guard = optionalIdentity('TEACHER', 'ADMIN');
  const id: [string, string] = ['X-User-Id', 'teacher-1'];
  const teacher: [string, string] = ['X-User-Role', 'TEACHER'];
  const nobody: Identity = {};
  t.equal(codeOf(guard, head(), nobody), undefined);
  t.strictSame(nobody, {});
  const known: Identity = {};
  t.equal(codeOf(guard, head(id, teacher), known), undefined);
  t.strictSame(known.actor, { id: 'teacher-1', role: 'TEACHER' });
  for (const pairs of [
    [id],
    [teacher],
    [id, ['X-User-Role', '']],
    [['X-User-Id', ''], teacher],
    [['X-User-Id', 'two words'], teacher],
    [id, id, teacher],
    [id, teacher, teacher],
  ] as [string, string][][]) {
    t.equal(codeOf(guard, head(...pairs)), 'UNAUTHENTICATED', JSON.stringify(pairs));
  }
  for (const role of ['STUDENT', 'PARENT', 'teacher', 'ROOT']) {
    t.equal(codeOf(guard, head(id, ['X-User-Role', role])), 'FORBIDDEN', role);
  }
  t.strictSame(guard.proofs?.[0], [], 'no identity header is required');
});

t.test('optionalIdentity requires the gateway’s token only with an identity', async (t) => {
  const gate = gatewayToken({ gatewayToken: 'gate' });
  const [route] = behindGateway([echoRoute({ guards: [optionalIdentity('ADMIN')] })], gate);
  const [first] = route?.guards ?? [];
  t.equal(codeOf(first, head()), undefined);
  for (const pairs of [[['X-User-Id', 'a']], [['X-User-Role', 'ADMIN']]] as [string, string][][]) {
    t.equal(codeOf(first, head(...pairs)), 'UNAUTHENTICATED');
    t.equal(codeOf(first, head(...pairs, ['X-Gateway-Token', 'gate'])), undefined);
  }
});

t.test('gatewayToken comes first, and only on routes that trust identity headers', async (t) => {
  t.equal(gatewayToken({ gatewayToken: undefined }), undefined);
  const shut = gatewayToken({ gatewayToken: '' });
  for (const given of [head(), head(['X-Gateway-Token', '']), head(['X-Gateway-Token', 'any'])]) {
    t.equal(codeOf(shut, given), 'UNAUTHENTICATED', 'an empty gateway token admits no caller');
  }
  const gate = gatewayToken({ gatewayToken: 'gate-token' });
  t.equal(codeOf(gate, head(['X-Gateway-Token', 'gate-token'])), undefined);
  t.equal(codeOf(gate, head(['X-Gateway-Token', 'gate-toke'])), 'UNAUTHENTICATED');
  t.equal(codeOf(gate, head(['X-Gateway-Token', 'gate-token'], ['X-Gateway-Token', 'gate-token'])), 'UNAUTHENTICATED');
  t.equal(codeOf(gate, head()), 'UNAUTHENTICATED');
  const trusting = echoRoute({ guards: [trustedStart({ token: 'a' }), identity()] });
  const names = behindGateway([trusting, echoRoute()], gate).map((route) => route.guards.map((guard) => guard.name));
  t.strictSame(names, [['gatewayToken', 'trustedStart', 'identity'], []]);
});

t.test('opsToken passes every call in development and requires the token in production', async (t) => {
  t.equal(codeOf(opsToken({ opsToken: 'ops-token', production: false }), head()), undefined);
  const guard = opsToken({ opsToken: 'ops-token', production: true });
  t.equal(codeOf(guard, head(['Authorization', 'Bearer ops-token'])), undefined);
  t.equal(codeOf(guard, head(['Authorization', 'bearer ops-token'])), undefined);
  for (const wrong of ['Bearer ops-toke', 'Basic ops-token', 'ops-token', 'Bearer', '']) {
    t.equal(codeOf(guard, head(['Authorization', wrong])), 'UNAUTHENTICATED', wrong);
  }
  t.equal(
    codeOf(opsToken({ opsToken: undefined, production: true }), head(['Authorization', 'Bearer x'])),
    'UNAUTHENTICATED',
  );
});

t.test('OPS_READ_TOKEN opens the metrics, and of the routes of operators only those that take it', async (t) => {
  const tokens = { opsToken: ['ops-token'], opsReadToken: ['read-token', 'earlier-read-token'] };
  const metrics = opsToken({ ...tokens, production: true });
  for (const token of ['ops-token', 'read-token', 'earlier-read-token']) {
    const bearer = head(['Authorization', `Bearer ${token}`]);
    t.equal(codeOf(metrics, bearer), undefined, token);
    t.equal(codeOf(operator(tokens), bearer), undefined, token);
  }
  const acts = operator({ opsToken: tokens.opsToken });
  t.equal(codeOf(acts, head(['Authorization', 'Bearer read-token'])), 'UNAUTHENTICATED');
  t.equal(codeOf(acts, head(['Authorization', 'Bearer ops-token'])), undefined);
  const alone = opsToken({ opsToken: undefined, opsReadToken: 'read-token', production: true });
  t.equal(codeOf(alone, head(['Authorization', 'Bearer read-token'])), undefined);
  t.equal(codeOf(alone, head(['Authorization', 'Bearer '])), 'UNAUTHENTICATED');
});

t.test('guards accept each value of a token that is being replaced, and no other', async (t) => {
  const values = ['new-token', 'old-token', ''];
  const gate = gatewayToken({ gatewayToken: values });
  const ops = opsToken({ opsToken: values, production: true });
  const start = trustedStart({ token: values });
  const accepts = (token: string) => [
    codeOf(gate, head(['X-Gateway-Token', token])),
    codeOf(ops, head(['Authorization', `Bearer ${token}`])),
    codeOf(
      start,
      head(
        ['X-Internal-Service', 'api-gateway'],
        ['X-Internal-Token', token],
        ['X-Exam-Runtime-Decision-Source', 'exam-service'],
      ),
    ),
  ];
  for (const token of ['new-token', 'old-token'])
    t.strictSame(accepts(token), [undefined, undefined, undefined], token);
  for (const token of ['', 'new-token,old-token', 'old-toke'])
    t.strictSame(accepts(token), ['UNAUTHENTICATED', 'UNAUTHENTICATED', 'ATTEMPT_START_UNTRUSTED'], token);
  t.equal(codeOf(gatewayToken({ gatewayToken: [] }), head(['X-Gateway-Token', ''])), 'UNAUTHENTICATED');
});

t.test('identity reads the headers that it is configured with', async (t) => {
  const guard = identity(ACTOR);
  const known: Identity = {};
  t.equal(codeOf(guard, head(['X-Actor-Id', 'a'], ['X-Actor-Role', 'ADMIN']), known), undefined);
  t.strictSame(known.actor, { id: 'a', role: 'ADMIN' });
  t.equal(codeOf(guard, head(['X-User-Id', 'a'], ['X-User-Role', 'ADMIN'])), 'UNAUTHENTICATED');
});

t.test('a role may be absent only if both guards permit it, and is otherwise matched exactly', async (t) => {
  const names = { ...ACTOR, roleMayBeAbsent: true };
  const codes = (...pairs: [string, string][]) => {
    const known: Identity = {};
    const refused = codeOf(identity(names), head(['X-Actor-Id', 'a'], ...pairs), known);
    if (refused !== undefined) return refused;
    const guards = [role(), role('ADMIN'), roleOrNone('PARENT')];
    return guards.map((guard) => codeOf(guard, head(), known) ?? 'passes');
  };
  t.strictSame(codes(), ['FORBIDDEN', 'FORBIDDEN', 'passes']);
  t.strictSame(codes(['X-Actor-Role', 'ADMIN']), ['passes', 'passes', 'FORBIDDEN']);
  t.strictSame(codes(['X-Actor-Role', 'PARENT']), ['passes', 'FORBIDDEN', 'passes']);
  t.strictSame(codes(['X-Actor-Role', 'parent']), ['FORBIDDEN', 'FORBIDDEN', 'FORBIDDEN']);
  t.equal(codes(['X-Actor-Role', '']), 'UNAUTHENTICATED');
  t.equal(codeOf(identity(), head(['X-User-Id', 'a'])), 'UNAUTHENTICATED', 'every other service demands a role');
});

t.test('a refusal names the header that is wanted, and the roles, and never what was sent', async (t) => {
  const path = (name: string) => `/headers/${name}`;
  const detailsOf = (guard: Guard | undefined, given: Head, known: Identity = {}) =>
    (guard?.check(given, known)?.details ?? []).map((detail) => [detail.path, detail.message]);
  const form = 'is required once: 1-128 characters of `A-Za-z0-9._:@+|/=~{}-`';
  t.strictSame(detailsOf(identity(), head()), [
    [path('x-user-id'), form],
    [path('x-user-role'), form],
  ]);
  t.strictSame(detailsOf(identity(ACTOR), head(['X-Actor-Id', 'p 1'], ['X-Actor-Role', 'ADMIN'])), [
    [path('x-actor-id'), form],
  ]);
  const known: Identity = {};
  identity(ACTOR).check(head(['X-Actor-Id', 'a'], ['X-Actor-Role', 'secret-role']), known);
  t.strictSame(detailsOf(role('ADMIN', 'TEACHER'), head(), known), [
    [path('x-actor-role'), 'must be one of ADMIN, TEACHER'],
  ]);
  t.strictSame(detailsOf(gatewayToken({ gatewayToken: 'gate' }), head(['X-Gateway-Token', 'guess'])), [
    [path('x-gateway-token'), 'must be the token of the gateway'],
  ]);
  const start = trustedStart({ token: 'the-token' });
  for (const sent of [[], START.slice(1), START.slice(0, 2)]) {
    t.strictSame(
      detailsOf(start, head(...sent)).map(([at]) => at),
      START.map(([name]) => path(name.toLowerCase())),
      'every fault of a start gets the same reply',
    );
  }
});

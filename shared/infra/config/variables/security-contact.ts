import type { Variable } from '#infra/config/variable.ts';

const GROUP = 'Security contact';

/** Contents of `/.well-known/security.txt`. Only the operator of an installation knows these addresses, so none has a default. */
export const SECURITY_CONTACT = {
  SECURITY_CONTACT: {
    group: GROUP,
    kind: 'text',
    default: null,
    description:
      'Where vulnerabilities of this installation are reported: `mailto:`, `tel:` or https addresses, comma-separated, the preferred one first. Unset = `/.well-known/security.txt` is 404.',
  },
  SECURITY_POLICY: {
    group: GROUP,
    kind: 'text',
    default: null,
    description: 'https address of your rules for such reports, if you have published them.',
  },
  SECURITY_TXT_URL: {
    group: GROUP,
    kind: 'text',
    default: null,
    description:
      'https address under which the file is reached from outside, such as `https://api.school.example/.well-known/security.txt`.',
  },
} as const satisfies Record<string, Variable>;

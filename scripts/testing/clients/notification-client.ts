import { randomUUID } from 'node:crypto';
import { checkedApi } from '#testing/doors/checked-api.ts';
import type { Cluster } from '#testing/processes/cluster.ts';
import type { HttpRequest } from './call.ts';

type Headers = NonNullable<HttpRequest['headers']>;
type Fields = Record<string, unknown>;

export function newUserId(): string {
  return `user-${randomUUID()}`;
}

export function notificationBody(userId: string, change: Fields = {}): Fields {
  return { userId, type: 'GRADE_RELEASED', title: 'Kết quả bài thi', content: 'Đã có kết quả.', ...change };
}

/** Returns a client of the cluster's notification service. Every reply is checked against the OpenAPI document. */
export async function notificationClient(cluster: Cluster) {
  const call = await checkedApi((method, target, options) => cluster.request(method, target, options));

  /** Returns the calls of a user whose id and role the gateway has set. */
  function inbox(id: string, headers: Headers, door: number) {
    const get = (path: string) => call('GET', path, { headers, door });
    const post = (path: string) => call('POST', path, { headers, door });
    return {
      id,
      headers,
      list: (query = '') => get(`/v1/notifications${query}`),
      get: (one: string) => get(`/v1/notifications/${one}`),
      read: (one: string) => post(`/v1/notifications/${one}/read`),
      remove: (one: string) => post(`/v1/notifications/${one}/delete`),
      readAll: () => post('/v1/notifications/read-all'),
      deleteAll: () => post('/v1/notifications/delete-all'),
      preferences: () => get('/v1/notifications/preferences'),
      prefer: (body: unknown) => call('PATCH', '/v1/notifications/preferences', { headers, door, body }),
      alerts: (query = '') => get(`/v1/parent/alerts${query}`),
      readAlert: (one: string) => post(`/v1/parent/alerts/${one}/read`),
      readAllAlerts: () => post('/v1/parent/alerts/read-all'),
      attempts: (query = '') => get(`/v1/delivery-attempts${query}`),
      summary: () => get('/v1/admin/support/notification-summary'),
    };
  }

  /** Returns the calls that create notifications, by an ADMIN or a service; the headers name which. */
  function maker(headers: Headers, door: number) {
    const send = (method: string, path: string, body: unknown) => call(method, path, { headers, door, body });
    const weakTopic = { sourceService: 'analytics-service', studentId: 'student-1', topic: 'Hàm số' };
    return {
      headers,
      create: (userId: string, change?: Fields) => send('POST', '/v1/notifications', notificationBody(userId, change)),
      batch: (body: unknown) => send('POST', '/v1/notifications/batch', body),
      snapshot: (id: string, change?: Fields) =>
        send('PUT', `/v1/notifications/${id}/snapshot`, {
          ...notificationBody('nobody'),
          isRead: false,
          createdAt: '2026-01-01T00:00:00.000Z',
          ...change,
        }),
      recordAttempt: (change?: Fields) =>
        send('POST', '/v1/delivery-attempts', {
          notificationId: 'n-1',
          userId: 'u-1',
          channel: 'webhook',
          provider: 'p',
          status: 'SENT',
          ...change,
        }),
      event: (change?: Fields) =>
        send('POST', '/v1/events/notification', { type: 'exam.assigned.notification.v1', ...change }),
      weakTopic: (change?: Fields) =>
        send('POST', '/v1/events/weak-topic-alert', { ...weakTopic, sourceEventId: randomUUID(), ...change }),
      alertWeakTopic: (change?: Fields) =>
        send('POST', '/v1/alerts/weak-topic', { ...weakTopic, sourceEventId: randomUUID(), ...change }),
    };
  }

  return {
    call,
    /** Returns the calls of a user; without an id, of a new user. */
    as(role: string, id = newUserId(), more: Headers = {}, door = 1) {
      const headers = { 'x-actor-id': id, 'x-actor-role': role, ...more };
      return { ...inbox(id, headers, door), ...maker(headers, door) };
    },
    service: (name: string, token: string = cluster.tokens.internal, more: Headers = {}, door = 1) =>
      maker({ 'x-internal-service': name, 'x-internal-token': token, ...more }, door),
  };
}

import { randomUUID } from 'node:crypto';
import { checkedApi } from '#testing/doors/checked-api.ts';
import type { Cluster } from '#testing/processes/cluster.ts';
import type { HttpReply, HttpRequest } from './http-call.ts';

type Headers = NonNullable<HttpRequest['headers']>;
type Fields = Record<string, unknown>;

/** Calls of a user whose id and role the gateway has set. */
export interface InboxClient {
  id: string;
  headers: Headers;
  list(query?: string): Promise<HttpReply>;
  get(id: string): Promise<HttpReply>;
  read(id: string): Promise<HttpReply>;
  remove(id: string): Promise<HttpReply>;
  readAll(): Promise<HttpReply>;
  deleteAll(): Promise<HttpReply>;
  preferences(): Promise<HttpReply>;
  prefer(patch: unknown): Promise<HttpReply>;
  alerts(query?: string): Promise<HttpReply>;
  readAlert(id: string): Promise<HttpReply>;
  readAllAlerts(): Promise<HttpReply>;
  attempts(query?: string): Promise<HttpReply>;
  summary(): Promise<HttpReply>;
}

/** Calls that create notifications, by an ADMIN or a service; the headers name which. */
export interface MakerClient {
  headers: Headers;
  create(userId: string, change?: Fields): Promise<HttpReply>;
  batch(body: unknown): Promise<HttpReply>;
  snapshot(id: string, change?: Fields): Promise<HttpReply>;
  recordAttempt(change?: Fields): Promise<HttpReply>;
  event(change?: Fields): Promise<HttpReply>;
  weakTopic(change?: Fields): Promise<HttpReply>;
  alertWeakTopic(change?: Fields): Promise<HttpReply>;
}

/** Client of the notification service's front door. Every reply is checked against the OpenAPI document. */
export interface NotificationClient {
  call: Awaited<ReturnType<typeof checkedApi>>;
  /** Returns the calls of a user; without an id, of a new user. */
  as(role: string, id?: string, more?: Headers, door?: number): InboxClient & MakerClient;
  service(name: string, token?: string, more?: Headers, door?: number): MakerClient;
}

/** Returns the id of a user without notifications. */
export function newUserId(): string {
  return `user-${randomUUID()}`;
}

/** Returns the body of a notification; `change` overrides fields. */
export function notificationBody(userId: string, change: Fields = {}): Fields {
  return { userId, type: 'GRADE_RELEASED', title: 'Kết quả bài thi', content: 'Đã có kết quả.', ...change };
}

/** Returns a client of the cluster's notification service. */
export async function notificationClient(cluster: Cluster): Promise<NotificationClient> {
  const call = await checkedApi((method, target, options) => cluster.request(method, target, options));

  function inbox(id: string, headers: Headers, door: number): InboxClient {
    const get = (path: string) => call('GET', path, { headers, door });
    const post = (path: string) => call('POST', path, { headers, door });
    return {
      id,
      headers,
      list: (query = '') => get(`/v1/notifications${query}`),
      get: (one) => get(`/v1/notifications/${one}`),
      read: (one) => post(`/v1/notifications/${one}/read`),
      remove: (one) => post(`/v1/notifications/${one}/delete`),
      readAll: () => post('/v1/notifications/read-all'),
      deleteAll: () => post('/v1/notifications/delete-all'),
      preferences: () => get('/v1/notifications/preferences'),
      prefer: (body) => call('PATCH', '/v1/notifications/preferences', { headers, door, body }),
      alerts: (query = '') => get(`/v1/parent/alerts${query}`),
      readAlert: (one) => post(`/v1/parent/alerts/${one}/read`),
      readAllAlerts: () => post('/v1/parent/alerts/read-all'),
      attempts: (query = '') => get(`/v1/delivery-attempts${query}`),
      summary: () => get('/v1/admin/support/notification-summary'),
    };
  }

  function maker(headers: Headers, door: number): MakerClient {
    const send = (method: string, path: string, body: unknown) => call(method, path, { headers, door, body });
    const weakTopic = { sourceService: 'analytics-service', studentId: 'student-1', topic: 'Hàm số' };
    return {
      headers,
      create: (userId, change) => send('POST', '/v1/notifications', notificationBody(userId, change)),
      batch: (body) => send('POST', '/v1/notifications/batch', body),
      snapshot: (id, change) =>
        send('PUT', `/v1/notifications/${id}/snapshot`, {
          ...notificationBody('nobody'),
          isRead: false,
          createdAt: '2026-01-01T00:00:00.000Z',
          ...change,
        }),
      recordAttempt: (change) =>
        send('POST', '/v1/delivery-attempts', {
          notificationId: 'n-1',
          userId: 'u-1',
          channel: 'webhook',
          provider: 'p',
          status: 'SENT',
          ...change,
        }),
      event: (change) => send('POST', '/v1/events/notification', { type: 'exam.assigned.notification.v1', ...change }),
      weakTopic: (change) =>
        send('POST', '/v1/events/weak-topic-alert', { ...weakTopic, sourceEventId: randomUUID(), ...change }),
      alertWeakTopic: (change) =>
        send('POST', '/v1/alerts/weak-topic', { ...weakTopic, sourceEventId: randomUUID(), ...change }),
    };
  }

  return {
    call,
    as(role, id = newUserId(), more = {}, door = 1) {
      const headers = { 'x-actor-id': id, 'x-actor-role': role, ...more };
      return { ...inbox(id, headers, door), ...maker(headers, door) };
    },
    service: (name, token = cluster.tokens.internal, more = {}, door = 1) =>
      maker({ 'x-internal-service': name, 'x-internal-token': token, ...more }, door),
  };
}

/* WiredTiger's interface is structures of function pointers; this gives each call that the benchmark needs a name. */

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <wiredtiger.h>

int bench_wt_open(const char *home, const char *config, WT_CONNECTION **connection) {
    return wiredtiger_open(home, NULL, config, connection);
}

int bench_wt_close(WT_CONNECTION *connection) {
    return connection->close(connection, NULL);
}

int bench_wt_create(WT_CONNECTION *connection, const char *table, const char *config) {
    WT_SESSION *session;
    int error = connection->open_session(connection, NULL, NULL, &session);
    if (error != 0)
        return error;
    error = session->create(session, table, config);
    session->close(session, NULL);
    return error;
}

int bench_wt_checkpoint(WT_CONNECTION *connection) {
    WT_SESSION *session;
    int error = connection->open_session(connection, NULL, NULL, &session);
    if (error != 0)
        return error;
    error = session->checkpoint(session, NULL);
    session->close(session, NULL);
    return error;
}

int bench_wt_session(WT_CONNECTION *connection, const char *table, WT_SESSION **session, WT_CURSOR **cursor) {
    int error = connection->open_session(connection, NULL, NULL, session);
    if (error != 0)
        return error;
    return (*session)->open_cursor(*session, table, NULL, "overwrite=false", cursor);
}

/* Rows in key order become pages without a search for their place. Nothing else may use the table meanwhile. */
int bench_wt_bulk(WT_CONNECTION *connection, const char *table, WT_SESSION **session, WT_CURSOR **cursor) {
    int error = connection->open_session(connection, NULL, NULL, session);
    if (error != 0)
        return error;
    return (*session)->open_cursor(*session, table, NULL, "bulk", cursor);
}

void bench_wt_end(WT_SESSION *session) {
    session->close(session, NULL);
}

int bench_wt_begin(WT_SESSION *session) {
    return session->begin_transaction(session, NULL);
}

int bench_wt_commit(WT_SESSION *session, bool durable) {
    return session->commit_transaction(session, durable ? "sync=on" : "sync=off");
}

int bench_wt_rollback(WT_SESSION *session) {
    return session->rollback_transaction(session, NULL);
}

static void set_key(WT_CURSOR *cursor, const uint8_t *key, size_t len) {
    WT_ITEM item;
    memset(&item, 0, sizeof item);
    item.data = key;
    item.size = len;
    cursor->set_key(cursor, &item);
}

static void set_value(WT_CURSOR *cursor, const uint8_t *value, size_t len) {
    WT_ITEM item;
    memset(&item, 0, sizeof item);
    item.data = value;
    item.size = len;
    cursor->set_value(cursor, &item);
}

int bench_wt_insert(WT_CURSOR *cursor, const uint8_t *key, size_t key_len, const uint8_t *value, size_t len) {
    set_key(cursor, key, key_len);
    set_value(cursor, value, len);
    return cursor->insert(cursor);
}

int bench_wt_update(WT_CURSOR *cursor, const uint8_t *key, size_t key_len, const uint8_t *value, size_t len) {
    set_key(cursor, key, key_len);
    set_value(cursor, value, len);
    return cursor->update(cursor);
}

int bench_wt_remove(WT_CURSOR *cursor, const uint8_t *key, size_t key_len) {
    set_key(cursor, key, key_len);
    return cursor->remove(cursor);
}

/* The value is valid until bench_wt_reset. */
int bench_wt_search(WT_CURSOR *cursor, const uint8_t *key, size_t key_len, const uint8_t **value, size_t *len) {
    WT_ITEM item;
    set_key(cursor, key, key_len);
    int error = cursor->search(cursor);
    if (error != 0)
        return error;
    error = cursor->get_value(cursor, &item);
    *value = item.data;
    *len = item.size;
    return error;
}

int bench_wt_reset(WT_CURSOR *cursor) {
    return cursor->reset(cursor);
}

int bench_wt_not_found(void) {
    return WT_NOTFOUND;
}

int bench_wt_conflict(void) {
    return WT_ROLLBACK;
}

/** Data sources: analytics servers that pages can ask beside the built-in one. */
import { useQuery } from "@tanstack/react-query";
import { Server } from "lucide-react";
import { type ReactElement, useState } from "react";

import type { DataSource, DataSourceName } from "../../api/wire.js";
import { call } from "../../api/call.js";
import { useChangeSearch } from "../../app/search.js";
import { Checkbox, TextField } from "../../ui/controls/controls.js";
import { Banner } from "../../ui/states.js";
import { toast } from "../../ui/toast.js";
import type { TableColumn } from "../../ui/table/table-columns.js";
import css from "../admin.module.css";
import { useInvalidate } from "../api.js";
import { useCheckedForm } from "../checked-form.js";
import { ConfirmButton, Form } from "../form.js";
import { ListPage, textColumn } from "../list-page.js";
import { textProblem, textRules } from "../rules.js";

const idOf = ({ name }: DataSource): string => name;

function columnsOf(rows: readonly DataSource[]): readonly TableColumn[] {
  return [
    textColumn(rows, "name", "Name", ({ name }) => name, { width: 200 }),
    textColumn(rows, "default", "Default", (row) => (row.is_default ? "yes" : "no"), { width: 90 }),
    textColumn(rows, "uri", "Address", ({ uri }) => uri ?? "of this deployment (SVC_ANALYTICS_URI)", {
      keep: true,
      width: 340,
    }),
  ];
}

export default function DataSourcesPage(): ReactElement {
  const query = useQuery({
    queryKey: ["admin", "sources"],
    queryFn: async ({ signal }): Promise<readonly DataSource[]> => {
      const names = await call<readonly DataSourceName[]>("api/data-sources", { signal });
      return await Promise.all(
        names.map(({ name }) => call<DataSource>(`api/data-sources/${encodeURIComponent(name)}`, { signal })),
      );
    },
  });
  return (
    <ListPage
      noun="data sources"
      intro="Analytics servers that people can ask from the pages here. Queries that choose none ask the default one."
      query={query}
      idOf={idOf}
      columns={columnsOf}
      empty={{ icon: <Server />, title: "No data source", text: "Add the address of an analytics server." }}
      add={{ label: "Add a source", title: "Add a data source", form: (close) => <SourceForm onCancel={close} /> }}
      panel={(row, close) => ({
        title: row.name,
        body: <SourceDetails key={row.name} row={row} onDeleted={close} />,
      })}
    />
  );
}

function SourceDetails({ row, onDeleted }: { readonly row: DataSource; readonly onDeleted: () => void }): ReactElement {
  const invalidate = useInvalidate();
  if (row.built_in) {
    return (
      <p>
        This is the analytics server of the deployment itself, which <code>SVC_ANALYTICS_URI</code> names. It stays, and
        is the default while no other is.
      </p>
    );
  }
  return (
    <>
      <SourceForm source={row} />
      <div className={css.actions}>
        <ConfirmButton
          label="Delete…"
          title={`Delete the data source “${row.name}”?`}
          confirm={`Delete “${row.name}”`}
          done={`The data source “${row.name}” is deleted`}
          onConfirm={async () => {
            await call(`api/data-sources/${encodeURIComponent(row.name)}`, { method: "DELETE" });
            await invalidate("sources", "data-sources");
            onDeleted();
          }}
        >
          <p>Pages and screens that name it fail until they name another one. The data on {row.uri ?? "it"} stays.</p>
        </ConfirmButton>
      </div>
    </>
  );
}

/** Of a new one unless `source` is given. */
function SourceForm({
  source,
  onCancel,
}: {
  readonly source?: DataSource;
  readonly onCancel?: () => void;
}): ReactElement {
  const [name, setName] = useState(source?.name ?? "");
  // What was not typed is as the server has it now.
  const [typed, setTyped] = useState<{ readonly uri?: string; readonly isDefault?: boolean }>({});
  const uri = typed.uri ?? source?.uri ?? "";
  const isDefault = typed.isDefault ?? source?.is_default ?? false;
  const change = useChangeSearch();
  const invalidate = useInvalidate();
  const problems = {
    name: textProblem("name", name, textRules.dataSource),
    uri: textProblem("uri", uri, textRules.uri),
  };
  const { form, problem } = useCheckedForm(problems, async () => {
    const path = `api/data-sources/${encodeURIComponent(name)}`;
    const now = source === undefined ? null : await call<DataSource>(path);
    await call(path, {
      method: "PUT",
      body: { uri: typed.uri ?? now?.uri ?? uri, is_default: typed.isDefault ?? now?.is_default ?? isDefault },
    });
    await invalidate("sources", "data-sources");
    // What was typed while it was sent is not saved.
    setTyped((now) => (now === typed ? {} : now));
    toast(`The data source “${name}” is saved`);
    return () => change({ new: undefined, open: name });
  });
  return (
    <Form
      label={source === undefined ? "Add a data source" : `Change ${source.name}`}
      submit="Save"
      onCancel={onCancel}
      {...form}
    >
      {source === undefined ? (
        <TextField
          label="Name"
          value={name}
          spellCheck={false}
          onChange={({ target }) => setName(target.value)}
          problem={problem("name")}
        />
      ) : null}
      <TextField
        label="Address"
        hint="grpc+tls://host:port, or grpc://host:port without encryption"
        value={uri}
        spellCheck={false}
        onChange={({ target }) => setTyped({ ...typed, uri: target.value })}
        problem={problem("uri")}
      />
      <Checkbox
        label="Ask it where nothing else is chosen"
        checked={isDefault}
        onChange={({ target }) => setTyped({ ...typed, isDefault: target.checked })}
      />
      <Banner kind="warn" title="It gets the identity token of everybody who queries it">
        <p>
          Name only servers that you run. Over <code>grpc://</code> the token is not encrypted.
        </p>
      </Banner>
    </Form>
  );
}

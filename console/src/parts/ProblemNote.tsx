import { Alert, Button, Text } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { useTexts } from "@/texts";
import { told } from "./problems";

interface Props {
  error: unknown;
  retry?: () => void;
}

/** What went wrong, in the server's words. */
export function ProblemNote({ error, retry }: Props) {
  const t = useTexts();
  const { title, detail, requestId } = told(error, t);
  return (
    <Alert color="red" icon={<IconAlertTriangle size={16} />} title={title}>
      {detail}
      {requestId ? (
        <Text size="xs" c="dimmed" mt={4}>
          {t.common.requestId} <code>{requestId}</code>
        </Text>
      ) : null}
      {retry ? (
        <Button variant="light" color="red" mt="xs" onClick={retry}>
          {t.common.tryAgain}
        </Button>
      ) : null}
    </Alert>
  );
}

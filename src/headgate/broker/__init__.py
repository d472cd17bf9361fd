"""RabbitMQ: what is declared there, what messages say, and the connection."""
